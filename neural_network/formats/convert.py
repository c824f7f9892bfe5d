# SPDX-License-Identifier: GPL-3.0-or-later
"""A motion file as BVH: ASF/AMC, or another BVH, optionally low-passed; the only place where motion is filtered."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..core.files import keep_apart
from ..core.messages import Say, counted
from ..learning.arguments import number, require_writable
from ..motion import cleaning
from ..motion.clip import Clip
from . import asf_amc, bvh
from .importing.sources import read_clip


def convert(
    source: str | Path,
    out: str | Path,
    *,
    skeleton: str | Path | None = None,
    low_pass: float | None = None,
    fps: float | None = None,
) -> Clip:
    """Write the motion ``source`` (.amc or .bvh) as the BVH file ``out``, in its own axes and units; returns what was written.

    Args:
        source: the motion.
        out: the file to write, whole or not at all.
        skeleton: the .asf of an .amc, or None to find it beside the motion.
        low_pass: cutoff [Hz] of a fourth-order Butterworth filter of zero phase, see ``cleaning.butterworth``; None: as captured.
        fps: frames per second, for a file that does not name its rate.

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
    else:
        clip = read_clip(source, fps=fps)
    if low_pass is not None:
        clip = cleaning.low_pass(clip, low_pass)
    bvh.write(out, clip)
    return clip


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser], say: Say) -> None:
    """Add the command ``convert`` to ``commands``; its words go to ``say``."""
    parser = commands.add_parser(
        "convert",
        help="write a motion file as BVH",
        description="Write an ASF/AMC or BVH motion as BVH, in its own axes and units.",
    )
    parser.add_argument("source", type=Path, metavar="IN.amc|IN.bvh", help="the motion")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT.bvh", help="file to write")
    parser.add_argument("--asf", type=Path, metavar="FILE", help="skeleton of an .amc (default: found beside it)")
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
    clip = convert(args.source, args.output, skeleton=args.asf, low_pass=args.low_pass, fps=args.source_fps)
    for warning in clip.warnings:
        say(warning, error=True)
    filtered = "" if args.low_pass is None else f", low-passed at {args.low_pass:g} Hz"
    say(f"{args.output}: {counted(clip.frames, 'frame')}, {clip.fps:g} frames per second{filtered}")
    return 0
