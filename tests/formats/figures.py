# SPDX-License-Identifier: GPL-3.0-or-later
"""A figure whose motion files are written by hand: a walk in the axes of a camera, below a still root, or trembling."""

from __future__ import annotations

from pathlib import Path

import numpy as np

BONES = (
    *(("Pelvis", "", (0, 0, 0)), ("L_Hip", "Pelvis", (0.08, -0.08, 0)), ("L_Knee", "L_Hip", (0, -0.4, 0.01))),
    *(("L_Ankle", "L_Knee", (0, -0.4, -0.02)), ("L_Foot", "L_Ankle", (0, -0.06, 0.13))),
    *(("R_Hip", "Pelvis", (-0.08, -0.08, 0)), ("R_Knee", "R_Hip", (0, -0.4, 0.01))),
    *(("R_Ankle", "R_Knee", (0, -0.4, -0.02)), ("R_Foot", "R_Ankle", (0, -0.06, 0.13))),
    *(("Spine1", "Pelvis", (0, 0.12, 0)), ("Spine2", "Spine1", (0, 0.14, 0)), ("Neck", "Spine2", (0, 0.24, 0))),
    *(("Head", "Neck", (0, 0.12, 0.02)), ("L_Shoulder", "Spine2", (0.16, 0.18, 0))),
    *(("L_Elbow", "L_Shoulder", (0.27, 0, 0)), ("L_Wrist", "L_Elbow", (0.25, 0, 0))),
    *(("R_Shoulder", "Spine2", (-0.16, 0.18, 0)), ("R_Elbow", "R_Shoulder", (-0.27, 0, 0))),
    ("R_Wrist", "R_Elbow", (-0.25, 0, 0)),
)
"""(name, parent, OFFSET) as programs write them that estimate motion from video."""


def header(rest: int = 1) -> tuple[list[str], list[str]]:
    """Lines of the hierarchy, and the names in the order of the channels; ``rest`` -1: the OFFSETs themselves point down."""
    lines, order = ["HIERARCHY"], []

    def joint(name: str, offset: tuple[float, float, float], depth: int) -> None:
        order.append(name)
        lines.extend([f"{'JOINT' if depth else 'ROOT'} {name}", "{"])
        lines.append(f"OFFSET {offset[0]:g} {rest * offset[1]:g} {rest * offset[2]:g}")
        positions = "3" if depth else "6 Xposition Yposition Zposition"
        lines.append(f"CHANNELS {positions} Zrotation Xrotation Yrotation")
        below = [bone for bone in BONES if bone[1] == name]
        for child, _, away in below:
            joint(child, away, depth + 1)
        lines.extend(["}"] if below else ["End Site", "{", "OFFSET 0 0.05 0.05", "}", "}"])

    joint("Pelvis", (0, 0, 0), 0)
    return lines, order


def bvh(
    turn: tuple[float, float, float] = (0, 0, 0),
    rest: int = 1,
    pose: dict[str, tuple[float, float, float]] | None = None,
) -> str:
    """BVH text of 60 frames of walking 2.4 m along Z; ``turn`` are the root's Z, X, Y angles.

    ``pose`` has angles of further joints; then the legs do not walk, and the root stays where it is.
    """
    lines, order = header(rest)
    lines += ["MOTION", "Frames: 60", "Frame Time: 0.0333333"]
    height = -0.94 if turn != (0, 0, 0) or rest < 0 else 0.94
    for f in range(60):
        swing = 25 * np.sin(f / 5)
        turns = {"L_Hip": (0, -swing, 0), "R_Hip": (0, swing, 0)} if pose is None else pose
        turns = {"L_Shoulder": (-70, 0, 0), "R_Shoulder": (70, 0, 0), "Pelvis": turn, **turns}
        way = f / 25 if pose is None else 0
        row = [0, height, 3 + way, *(x for name in order for x in turns.get(name, (0, 0, 0)))]
        lines.append(" ".join(f"{value:g}" for value in row))
    return "\n".join(lines) + "\n"


def below_still_root(text: str) -> str:
    """The same motion with a still joint, Reference, above the pelvis."""
    head, motion = text.replace("ROOT Pelvis", "JOINT Pelvis").split("MOTION\n")
    top = "HIERARCHY\nROOT Reference\n{\nOFFSET 0 0 0\nCHANNELS 3 Zrotation Xrotation Yrotation\n"
    lines = motion.splitlines()
    rows = [*lines[:2], *("0 0 0 " + row for row in lines[2:])]
    return head.replace("HIERARCHY\n", top) + "}\nMOTION\n" + "\n".join(rows) + "\n"


STANDING = {"Spine1": (0, 5, 0)}
SITTING = {"L_Hip": (0, -90, 0), "R_Hip": (0, -90, 0), "L_Knee": (0, 60, 0), "R_Knee": (0, 60, 0)}


def take(folder: Path, name: str, hips: float, pose: dict[str, tuple[float, float, float]] | None) -> None:
    """A take of the same figure with its hips at a height of the file."""
    rows = bvh(pose=pose).split("\n")
    at = rows.index("Frame Time: 0.0333333") + 1
    rows[at:-1] = [f"0 {hips} {row.split(' ', 2)[2]}" for row in rows[at:-1]]
    (folder / name).write_text("\n".join(rows))
