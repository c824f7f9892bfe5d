# SPDX-License-Identifier: GPL-3.0-or-later
"""Make ``training_data.npz``: the humanoid clips in the package ``pybullet``, transferred to the reference rig.

Run from the root of this repository::

    uv run --group data --python 3.11 -m training_data.make_training_data

The source humanoid (``pybullet_data/humanoid/humanoid.urdf``, in quarter metres) looks along +X with Y up and its
right at +Z; its arms hang down at rest. Knees and elbows are hinges about its Z. ``README.md`` says where the clips come from.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np

from neural_network.core import rotations
from neural_network.core.reference_rig import reference
from neural_network.core.skeleton import Skeleton
from neural_network.motion import pose_set

VERSION = "3.2.7"  # of pybullet: other versions may contain other clips
HERE = Path(__file__).resolve().parent

# Columns of a frame: 0 is its duration [s], 1:4 the root's position [m], 4:8 its quaternion (w, x, y, z); then the
# joints, a ball as a quaternion relative to its parent (not always of unit length), a hinge as an angle [rad].
BALLS = {"chest": 8, "neck": 12, "right_hip": 16, "right_ankle": 21, "right_shoulder": 25}
BALLS |= {"left_hip": 30, "left_ankle": 35, "left_shoulder": 39}
HINGES = {"right_knee": 20, "right_elbow": 29, "left_knee": 34, "left_elbow": 43}
WIDTH = 44

# From the source's axes to the core's: its right (Z) is -X, its front (X) is -Y, its up (Y) is Z.
TO_CORE = np.array([[0.0, 0, -1], [-1, 0, 0], [0, 1, 0]])
SOURCE_THIGH, SOURCE_SHIN = 1.686184 / 4, 1.63948 / 4  # [m] lengths in the URDF
SIDES = ("Left", "Right")
LEFT, DOWN = np.array([1.0, 0, 0]), np.array([0.0, 0, -1])  # core axes
UPRIGHT = 0.75  # leg lengths: a body whose Hips are higher than this stands or is in the air
SPAN = 0.02  # [m] heights of the feet within this count as one when the floor is sought
# Decimals kept [rad, m]: processors that round the sixteenth digit differently still make the same file.
DIGITS = 6


def sources(folder: Path) -> list[Path]:
    """The clips of the humanoid below ``pybullet_data``'s ``folder``, in the order in which they are stored."""
    motions = folder / "data" / "motions"
    found = sorted(motions.glob("humanoid3d_*.txt")) + sorted((motions / "walker").glob("*.txt"))
    if not found:
        raise ValueError(f"expected motion clips in {motions}, got none; install pybullet {VERSION}")
    return found


def installed() -> Path:
    """The folder ``pybullet_data`` of the installed package; ValueError where it is missing or of another version."""
    spec = importlib.util.find_spec("pybullet_data")
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(
            f"expected the package pybullet {VERSION}, got none; run with: uv run --group data --python 3.11"
        )
    version = importlib.metadata.version("pybullet")
    if version != VERSION:
        raise ValueError(f"expected pybullet {VERSION}, got {version}; its clips may differ")
    return Path(next(iter(spec.submodule_search_locations)))


def read(path: Path) -> tuple[np.ndarray, float]:
    """The frames (F, 44) of one file and its frame rate [1/s], the median of its durations."""
    frames = np.array(json.loads(path.read_text())["Frames"], np.float64)
    if frames.ndim != 2 or frames.shape[1] != WIDTH or not np.isfinite(frames).all():
        raise ValueError(f"{path.name}: expected finite frames of {WIDTH} numbers, got {frames.shape}")
    return frames, round(1 / float(np.median(frames[:, 0])), 1)


def turns(frames: np.ndarray) -> dict[str, np.ndarray]:
    """Rotation of each source part from the source's rest: name -> (F, 3, 3) in core axes."""
    local = {"root": rotations.axis_angle_from_quaternion(frames[:, 4:8])}
    local |= {name: rotations.axis_angle_from_quaternion(frames[:, c : c + 4]) for name, c in BALLS.items()}
    local |= {name: frames[:, c, None] * [0.0, 0, 1] for name, c in HINGES.items()}
    matrix = {name: rotations.matrix_from_axis_angle(rot @ TO_CORE.T) for name, rot in local.items()}
    chains: list[tuple[str, ...]] = [("root", "chest", "neck")]
    for side in ("left", "right"):
        chains.append(("root", f"{side}_hip", f"{side}_knee", f"{side}_ankle"))
        chains.append(("chest", f"{side}_shoulder", f"{side}_elbow"))
    out = {"root": matrix["root"]}
    for chain in chains:
        for above, name in pairwise(chain):
            out[name] = out[above] @ matrix[name]
    return out


def carry(rig: Skeleton, frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Source ``frames`` (F, 44) on ``rig``: rot_local (F, J, 3) [rad] and the Hips' head (F, 3) [m], floor at z = 0.

    Trunk, arms and feet rotate as the source's do, from a common T-pose; the rotations of chest and neck are divided
    equally over three bones each. Legs are solved, because thigh and shin have other shares of the leg here: ankles are
    where the source's are, scaled by the leg, but never so low that ankle or toe is below the floor. Collar bones, hands
    and toes keep their rest pose.
    """
    source = turns(frames)
    turned = {"Hips": source["root"]}
    for names, above, below in (
        (("Spine", "Spine1", "Spine2"), "root", "chest"),
        (("NeckLower", "NeckUpper", "Head"), "chest", "neck"),
    ):
        whole = rotations.axis_angle_from_matrix(np.swapaxes(source[above], 1, 2) @ source[below])
        for i, name in enumerate(names, 1):
            turned[name] = source[above] @ rotations.matrix_from_axis_angle(whole * (i / len(names)))
    for side, sign in (("Left", 1), ("Right", -1)):
        lowered = rotations.matrix_from_axis_angle(np.array([0, sign * np.pi / 2, 0]))  # from the T-pose to hanging
        turned[f"{side}Shoulder"] = source["chest"]
        turned[f"{side}Arm"] = source[f"{side.lower()}_shoulder"] @ lowered
        turned[f"{side}ForeArm"] = turned[f"{side}Hand"] = source[f"{side.lower()}_elbow"] @ lowered
        turned[f"{side}Foot"] = turned[f"{side}ToeBase"] = source[f"{side.lower()}_ankle"]

    scale = rig.leg_length / (SOURCE_THIGH + SOURCE_SHIN)
    root_pos = scale * frames[:, 1:4] @ TO_CORE.T
    thighs = [rig.names.index(f"{side}Thigh") for side in SIDES]
    root_pos -= source["root"] @ rig.offsets[thighs].mean(axis=0)  # the source's root lies between its hip joints
    hips = root_pos[:, None] + np.einsum("fab,sb->fsa", source["root"], rig.offsets[thighs])
    shanks = [
        SOURCE_THIGH * source[f"{side.lower()}_hip"] @ DOWN + SOURCE_SHIN * source[f"{side.lower()}_knee"] @ DOWN
        for side in SIDES
    ]
    ankles = hips + scale * np.stack(shanks, axis=1)
    soles = np.stack([turned[f"{side}Foot"] for side in SIDES], axis=1)
    height = foot_heights(rig, ankles, soles)
    floor = standing_height(height.min(axis=1), root_pos[:, 2], rig.leg_length)
    root_pos[:, 2] -= floor
    hips[..., 2] -= floor
    ankles[..., 2] -= floor + np.minimum(height - floor, 0)
    for i, side in enumerate(SIDES):
        hinge = source[f"{side.lower()}_hip"] @ LEFT
        turned[f"{side}Thigh"], turned[f"{side}Shin"] = leg(rig, side, ankles[:, i] - hips[:, i], hinge)

    every = np.stack([turned[name] for name in rig.names], axis=1)
    of_parent = np.where((rig.parents >= 0)[:, None, None], every[:, rig.parents], np.eye(3))
    core = rotations.axis_angle_from_matrix(np.swapaxes(of_parent, -1, -2) @ every)
    return np.round(rig.from_core(core), DIGITS) + 0.0, np.round(root_pos, DIGITS) + 0.0  # no negative zeros


def foot_heights(rig: Skeleton, ankles: np.ndarray, soles: np.ndarray) -> np.ndarray:
    """Height (F, 2) [m] of the lower of ankle and toe above its own rest height.

    From the ankles' positions (F, 2, 3) [m] and the feet's rotations from the T-pose (F, 2, 3, 3).
    """
    toes = ankles + np.einsum("fsab,sb->fsa", soles, rig.offsets[list(rig.toes)])
    lower: np.ndarray = np.minimum(ankles[..., 2] - rig.foot_rest[:, 0], toes[..., 2] - rig.foot_rest[:, 1])
    return lower


def standing_height(lowest: np.ndarray, hips: np.ndarray, leg_length: float) -> float:
    """Height [m] of the floor under a clip from the lowest foot's (F) and the Hips' (F) heights [m].

    Feet of the source dip up to 6 cm into its own floor for moments (run, roll, spin, dance_b): the 2nd percentile, by
    which a clip's ground is found elsewhere, would leave the body hovering most of the time. So the floor is where the
    lower foot is most often while the body is upright: the lower edge of the fullest span of heights. A clip with fewer
    than 10 such frames, where the body lies or crawls, keeps the 2nd percentile.
    """
    upright = np.sort(lowest[hips - np.percentile(lowest, 2) > UPRIGHT * leg_length])
    if len(upright) < 10:
        return float(np.percentile(lowest, 2))
    inside = np.searchsorted(upright, upright + SPAN, side="right") - np.arange(len(upright))
    return float(upright[np.argmax(inside)])


def leg(rig: Skeleton, side: str, ankle: np.ndarray, hinge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rotations of thigh and shin (F, 3, 3) from the T-pose that bring the ankle to ``ankle`` (F, 3) [m] from the hip joint.

    ``hinge`` (F, 3): about the knee's axis, pointing left. The knee goes to the front. Law of cosines.
    """
    upper, lower = (rig.offsets[rig.names.index(side + name)] for name in ("Shin", "Foot"))
    a, b = np.linalg.norm(upper), np.linalg.norm(lower)
    reach = np.clip(np.linalg.norm(ankle, axis=-1), abs(a - b), a + b)
    at_hip = np.arccos(np.clip((a * a + reach**2 - b * b) / (2 * a * reach), -1, 1))
    at_ankle = np.arccos(np.clip((b * b + reach**2 - a * a) / (2 * b * reach), -1, 1))
    axis = frame(ankle, hinge)[..., 1]
    out = []
    for rest, angle in ((upper, -at_hip), (lower, at_ankle)):
        along = rotations.matrix_from_axis_angle(axis * angle[:, None]) @ ankle[..., None]
        out.append(frame(along[..., 0], axis) @ frame(rest, LEFT).T)
    return out[0], out[1]


def frame(along: np.ndarray, across: np.ndarray) -> np.ndarray:
    """Orthonormal columns (..., 3, 3): along ``along`` (..., 3), ``across`` it (..., 3), and across both."""
    x = along / np.linalg.norm(along, axis=-1, keepdims=True)
    y = across - x * np.sum(across * x, axis=-1, keepdims=True)
    y = y / np.linalg.norm(y, axis=-1, keepdims=True)
    return np.stack([x, y, np.cross(x, y)], axis=-1)


def make(folder: Path) -> pose_set.PoseSet:
    """All clips below ``pybullet_data``'s ``folder`` as one PoseSet of the reference rig."""
    rig = reference()
    paths = sources(folder)
    clips = [(*carry(rig, frames), fps) for frames, fps in map(read, paths)]
    return pose_set.make(
        rig,
        np.concatenate([rot for rot, _, _ in clips]),
        np.concatenate([root_pos for _, root_pos, _ in clips]),
        np.repeat(np.arange(len(clips)), [len(rot) for rot, _, _ in clips]),
        [path.stem.removeprefix("humanoid3d_") for path in paths],
        clip_fps=np.array([fps for _, _, fps in clips]),
        ground=np.zeros(len(clips)),
    )


def main(arguments: list[str] | None = None) -> int:
    """Write the file and print what is in it; 2 where the clips are missing."""
    parser = argparse.ArgumentParser(description="Make training_data.npz from the clips in the package pybullet.")
    parser.add_argument("-o", "--output", type=Path, default=HERE / "training_data.npz", help="default: %(default)s")
    output = parser.parse_args(arguments).output
    try:
        poses = make(installed())
        pose_set.save(output, poses)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    for i, name in enumerate(poses.clip_names):
        rows = poses.rows(i)
        print(f"{name:20s} {rows.stop - rows.start:4d} frames at {poses.clip_fps[i]:4.0f} fps  {poses.clip_tasks[i]}")
    print(f"{len(poses.clip_names)} clips, {poses.frames} frames: {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
