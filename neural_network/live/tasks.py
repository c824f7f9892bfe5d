# SPDX-License-Identifier: GPL-3.0-or-later
"""Tasks on recorded clips: the legs of a clip, and the rows that a client would send to teach them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core import forward_kinematics
from ..core import quick_rotations as quick
from ..core.tree import sums
from ..motion.clip import Clip, to_z_up
from .layouts import LEG_BONES, SIDES, ChannelLayout, TwoBoneLimb, legs_layout, positions_layout

TASKS = ("knee", "calf", "legs")
"""Knees in the pelvis' space from the feet, calves in their thighs' space from the feet, and the legs layout."""
STANDING = 0.3
"""[m/s] a foot slower than this counts as on the ground."""
_NAMES = {
    "Pelvis": ("hips", "pelvis", "hip"),
    "Thigh": ("upleg", "thigh", "upperleg"),
    "Calf": ("leg", "shin", "calf", "lowerleg"),
    "Foot": ("foot", "ankle"),
}


@dataclass(frozen=True)
class LegMotion:
    """The pelvis and legs of a clip in its own world: metres, quaternions (w, x, y, z)."""

    name: str
    positions: dict[str, np.ndarray]
    """Bone (``Pelvis``, ``LeftThigh``, ... ``RightFoot``) -> (F, 3) [m]."""
    rotations: dict[str, np.ndarray]
    """Bone -> (F, 4)."""
    rest: dict[str, np.ndarray]
    """Bone -> (3) rest head relative to the pelvis [m]."""
    up: tuple[float, float, float]
    fps: float


def motion_from_clip(clip: Clip, skip: int = 0) -> LegMotion:
    """World positions and rotations of pelvis and legs, without the first ``skip`` frames (an inserted T-pose).

    Raises ValueError where the bones are not found by their usual names, and lists the clip's names.
    """
    found = {"Pelvis": _find(clip, "", "Pelvis")}
    for side in SIDES:
        for bone in LEG_BONES:
            found[side + bone] = _find(clip, side, bone)
    offsets = clip.offsets
    if clip.translations:
        offsets = np.repeat(offsets[None], clip.frames, axis=0)
        for j, moving in clip.translations.items():
            offsets[:, j] = moving
    turned, heads = forward_kinematics.walk_quaternions(clip.parents, clip.rotations, offsets, clip.root_pos)
    heads = heads * clip.unit
    rest = sums(clip.parents, clip.offsets)
    rest = (rest - rest[found["Pelvis"]]) * clip.unit
    up = to_z_up(clip.up_axis)[2]
    return LegMotion(
        clip.name,
        {bone: heads[skip:, j] for bone, j in found.items()},
        {bone: turned[skip:, j] for bone, j in found.items()},
        {bone: rest[j] for bone, j in found.items()},
        (float(up[0]), float(up[1]), float(up[2])),
        clip.fps,
    )


def limbs_of(motion: LegMotion) -> tuple[TwoBoneLimb, ...]:
    """Both legs as limbs of the pelvis, from the rest pose."""
    out = []
    for side in SIDES:
        hip, knee, ankle = (motion.rest[side + bone] for bone in LEG_BONES)
        lengths = float(np.linalg.norm(knee - hip)), float(np.linalg.norm(ankle - knee))
        (a, b, c), (x, y, z) = (float(v) for v in hip), (float(v) for v in ankle - hip)
        out.append(TwoBoneLimb(f"{side}Foot.position", f"{side}Calf.position", (a, b, c), *lengths, (x, y, z)))
    return tuple(out)


def task_layout(task: str, motion: LegMotion, *, rotations: bool = True, limbs: bool = True) -> ChannelLayout:
    """The layout of a task for this rig. Raises ValueError for a task that is not in ``TASKS``."""
    if task == "legs":
        return legs_layout(up=motion.up)
    feet, calves = [f"{side}Foot" for side in SIDES], [f"{side}Calf" for side in SIDES]
    if task == "calf":
        return positions_layout("Pelvis", feet, calves, rotations=rotations, parent_space=True, up=motion.up)
    if task == "knee":
        both = limbs_of(motion) if limbs else ()
        return positions_layout("Pelvis", feet, calves, both, rotations=rotations, up=motion.up)
    raise ValueError(f"task: expected one of {TASKS}, got {task!r}")


def task_rows(task: str, motion: LegMotion, *, rotations: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """The rows (F, inputs) and (F, outputs) that a client would send for ``motion``; legs start at the second frame."""
    p, q = motion.positions, motion.rotations
    if task == "legs":
        return _leg_rows(motion)
    inputs = [p["Pelvis"], q["Pelvis"]]
    outputs = []
    for side in SIDES:
        inputs += [p[f"{side}Foot"], q[f"{side}Foot"]] if rotations else [p[f"{side}Foot"]]
        calf = p[f"{side}Calf"]
        if task == "calf":
            calf = quick.quaternion_rotate(q[f"{side}Thigh"] * quick.CONJUGATE, calf - p[f"{side}Thigh"])
        outputs.append(calf)
    return np.concatenate(inputs, axis=1), np.concatenate(outputs, axis=1)


def _leg_rows(motion: LegMotion) -> tuple[np.ndarray, np.ndarray]:
    p, q = motion.positions, motion.rotations
    inputs = [p["Pelvis"][1:], q["Pelvis"][1:]]
    outputs, feet = [], []
    for side in SIDES:
        parent = "Pelvis"
        for bone in (side + b for b in LEG_BONES):
            back = q[parent] * quick.CONJUGATE
            turn = quick.quaternion_multiply(back, q[bone])
            inputs += [quick.quaternion_rotate(back, p[bone] - p[parent])[:-1], turn[:-1]]
            outputs.append(turn[1:])
            parent = bone
        foot = p[f"{side}Foot"]
        # the normal under the sole is the foot's own vertical; there is ground where the foot hardly moves
        normal = quick.quaternion_rotate(q[f"{side}Foot"], np.array(motion.up))
        speed = np.linalg.norm(np.diff(foot, axis=0), axis=-1, keepdims=True) * motion.fps
        feet += [foot[1:], normal[1:], (speed < STANDING).astype(np.float64)]
    return np.concatenate(inputs + feet, axis=1), np.concatenate(outputs, axis=1)


def _find(clip: Clip, side: str, bone: str) -> int:
    """Index of a bone by its usual names, with the side before or after; ValueError where there is none."""
    plain = [name.rsplit(":", 1)[-1].lower().replace("_", "").replace(".", "").replace(" ", "") for name in clip.names]
    short = side[:1].lower()
    for name in _NAMES[bone]:
        for spelling in (side.lower() + name, name + side.lower(), short + name, name + short) if side else (name,):
            if spelling in plain:
                return plain.index(spelling)
    raise ValueError(
        f"{clip.name}: expected a bone for {side}{bone}, named like {_NAMES[bone]}; got {', '.join(clip.names)}"
    )
