# SPDX-License-Identifier: GPL-3.0-or-later
"""A motion file as BVH: ASF/AMC, another BVH, or a clip of poses, optionally low-passed; the only place where motion is filtered."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..core import forward_kinematics as fk
from ..core import rotations
from ..core.files import keep_apart
from ..core.messages import Say, counted
from ..learning.arguments import number, require_writable
from ..motion import cleaning, pose_set
from ..motion.clip import Clip, to_z_up
from ..motion.pose_set import PoseSet
from . import asf_amc, bvh
from .importing.sources import read_clip


def convert(
    source: str | Path,
    out: str | Path,
    *,
    skeleton: str | Path | None = None,
    low_pass: float | None = None,
    fps: float | None = None,
    clip_name: str | None = None,
) -> Clip:
    """Write the motion ``source`` (.amc, .bvh or .npz) as the BVH file ``out``; returns what was written.

    It stays in its own axes and units; poses (.npz) are written in metres, Y up.

    Args:
        source: the motion.
        out: the file to write, whole or not at all.
        skeleton: the .asf of an .amc, or None to find it beside the motion.
        low_pass: cutoff [Hz] of a fourth-order Butterworth filter of zero phase, see ``cleaning.butterworth``; None: as captured.
        fps: frames per second, for a file that does not name its rate.
        clip_name: the clip of an .npz that is written; None: its only one.

    Raises ValueError if a file cannot be understood or the cutoff is not below half the frame rate, OSError if one cannot be
    read or written.
    """
    source, out = Path(source), Path(out)
    keep_apart({"the motion": source, "the skeleton": None if skeleton is None else Path(skeleton)}, {"-o": out})
    require_writable(out, ".bvh")
    if skeleton is not None:
        if source.suffix.lower() != ".amc":
            raise ValueError(f"{source.name}: expected an .amc file with the skeleton {Path(skeleton).name}")
        clip = asf_amc.read(skeleton, source, fps=fps)
    elif source.suffix.lower() == ".npz":
        poses = pose_set.load(source)
        clip = of_poses(poses, _chosen(poses.clip_names, clip_name, source.name))
        clip = clip if fps is None else replace(clip, fps=fps)
    else:
        clip = read_clip(source, fps=fps)
    if low_pass is not None:
        clip = cleaning.low_pass(clip, low_pass)
    bvh.write(out, clip)
    return clip


def _chosen(names: Sequence[str], wanted: str | None, file: str) -> int:
    """The number of the clip of that name, or of the only one."""
    some = ", ".join(names[:12]) + (" and more" if len(names) > 12 else "")
    if wanted is None and len(names) == 1:
        return 0
    if wanted is None or wanted not in names:
        got = "no name" if wanted is None else wanted
        raise ValueError(f"{file}: expected --clip with one of {some}; got {got}")
    return list(names).index(wanted)


def of_poses(poses: PoseSet, clip: int) -> Clip:
    """One clip of a pose set as motion in metres with Y up; every joint's rest axes are the file's."""
    rig, rows = poses.skeleton, poses.rows(clip)
    file = to_z_up("Y").T
    rest = rig.rest_arm
    posed = fk.armature_matrices(rig, poses.rot[rows].astype(float), poses.root_pos[rows].astype(float))
    turned = file @ posed[..., :3, :3] @ np.swapaxes(rest[:, :3, :3], -1, -2) @ file.T
    local = turned.copy()
    local[:, 1:] = np.swapaxes(turned[:, rig.parents[1:]], -1, -2) @ turned[:, 1:]
    heads = rest[:, :3, 3] @ file.T
    offsets = heads.copy()
    offsets[1:] -= heads[rig.parents[1:]]
    return Clip(
        poses.clip_names[clip],
        tuple(rig.names),
        np.asarray(rig.parents),
        offsets,
        {},
        rotations.quaternion_from_matrix(local),
        posed[:, 0, :3, 3] @ file.T,
        float(poses.clip_fps[clip]),
    )


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser], say: Say) -> None:
    """Add the command ``convert`` to ``commands``; its words go to ``say``."""
    parser = commands.add_parser(
        "convert",
        help="write a motion file as BVH",
        description="Write an ASF/AMC or BVH motion as BVH, in its own axes and units; or a clip of poses, such as fill, fix and mend "
        "write, in metres, Y up.",
    )
    parser.add_argument("source", type=Path, metavar="IN.amc|IN.bvh|IN.npz", help="the motion")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT.bvh", help="file to write")
    parser.add_argument("--asf", type=Path, metavar="FILE", help="skeleton of an .amc (default: found beside it)")
    parser.add_argument("--clip", metavar="NAME", help="clip of an .npz that has several")
    parser.add_argument(
        "--low-pass",
        type=number(float, 0, 1000, above=True),
        metavar="HZ",
        help="cutoff of a fourth-order Butterworth filter of zero phase; 6 to 10 is usual, but softens foot strikes "
        "(default: off)",
    )
    parser.add_argument(
        "--source-fps",
        type=number(float, 0, 1e6, above=True),
        metavar="FPS",
        help="assume this frame rate instead of the one in the file",
    )
    parser.set_defaults(run=lambda args: _run(args, say))


def _run(args: argparse.Namespace, say: Say) -> int:
    clip = convert(
        args.source, args.output, skeleton=args.asf, low_pass=args.low_pass, fps=args.source_fps, clip_name=args.clip
    )
    for warning in clip.warnings:
        say(warning, error=True)
    filtered = "" if args.low_pass is None else f", low-passed at {args.low_pass:g} Hz"
    say(f"{args.output}: {counted(clip.frames, 'frame')}, {clip.fps:g} frames per second{filtered}")
    return 0
