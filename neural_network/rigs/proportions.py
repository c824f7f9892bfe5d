# SPDX-License-Identifier: GPL-3.0-or-later
"""The reference rig in the proportions of another body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..core.reference_rig import reference, rest_orientation
from ..core.skeleton import Skeleton
from .bone_tree import ancestors
from .foot_placement import rest_soles
from .rig_body import RigBody, leg_length, require_legs
from .t_pose import rest_to_t_pose

_TRUNK = ("Spine", "Spine1", "Spine2")


def proportioned_reference(body: RigBody, t_pose: Mapping[str, np.ndarray] | None = None) -> Skeleton:
    """The reference rig with the lengths of another body, in T-pose, with its soles at z = 0.

    ``t_pose`` are the body's rotations since rest in the T-pose, per role; None finds them from its rest pose. Roles that
    the body lacks are placed between their neighbours. Raises ValueError for a body without hips or legs.
    """
    require_legs(body.bones, "body")
    t_pose = rest_to_t_pose(body) if t_pose is None else t_pose
    own = reference()
    posed = _t_pose_heads(body, t_pose)
    places = {role: posed[j] for role, j in body.bones.items()}
    scale = leg_length(body) / own.leg_length
    rest = {name: own.rest_arm[j, :3, 3] for j, name in enumerate(own.names)}
    _add_missing_places(places, rest, scale)
    middle = 0.5 * (places["LeftThigh"] + places["RightThigh"])
    feet = [r for r in ("LeftFoot", "RightFoot", "LeftToeBase", "RightToeBase") if r in body.bones]
    known = rest_soles(body, t_pose)
    soles = {r: max(known[r], 0.3 * scale * rest[r][2]) for r in feet if r.endswith("Foot") and r in known}
    if not any(r.endswith("ToeBase") for r in feet):  # the height of the ankles is unknown
        soles = {r: max(known[r], scale * rest[r][2]) for r in soles}
    lift = float(np.mean([soles[r] - places[r][2] for r in soles])) if soles else 0.0
    heads = np.array([places[name] for name in own.names]) - middle * [1, 1, 0] + [0, 0, lift]
    matrices = own.rest_arm.copy()
    for j in range(own.count):
        along = _bone_vector(own, j, heads)
        matrices[j, :3, :3] = own.rest_arm[j, :3, :3] if along is None else rest_orientation(along)
        matrices[j, :3, 3] = heads[j]
    return replace(own, rest_arm=matrices)


def _t_pose_heads(body: RigBody, t_pose: Mapping[str, np.ndarray]) -> np.ndarray:
    """Heads (J, 3) [m] of the body in its T-pose, relative to its root."""
    turned = np.empty((len(body.parents), 3, 3))
    heads = np.zeros((len(body.parents), 3))
    role_of = {j: role for role, j in body.bones.items()}
    depth = [len(ancestors(body.parents, j)) for j in range(len(body.parents))]
    for j in np.argsort(depth, kind="stable").tolist():
        p = int(body.parents[j])
        turned[j] = t_pose[role_of[j]] if j in role_of else (turned[p] if p >= 0 else np.eye(3))
        heads[j] = 0 if p < 0 else heads[p] + turned[p] @ (body.heads[j] - body.heads[p])
    return heads


def _add_missing_places(places: dict[str, np.ndarray], rest: Mapping[str, np.ndarray], scale: float) -> None:
    """Add a place in the T-pose for every role that a body lacks, in place: between its neighbours, else from the reference."""
    shoulders = [places[s + "Arm"] for s in ("Left", "Right") if s + "Arm" in places]
    base = places.get("NeckLower", places.get("Head", np.mean(shoulders, axis=0) if shoulders else None))
    if base is None:
        base = places["Hips"] + scale * (rest["NeckLower"] - rest["Hips"])
    places.setdefault("Head", base + scale * (rest["Head"] - rest["NeckLower"]))
    for chain, top in ((("Hips", *_TRUNK), base), (("NeckLower", "NeckUpper"), places["Head"])):
        places.setdefault(chain[0], base)
        last = [r for r in chain if r in places][-1]
        missing = chain[chain.index(last) + 1 :]
        step = len(missing) + 1
        places.update({r: places[last] + (top - places[last]) * (i + 1) / step for i, r in enumerate(missing)})
    for side in ("Left", "Right"):
        places.setdefault(side + "Arm", places["Spine2"] + scale * (rest[side + "Arm"] - rest["Spine2"]))
        places.setdefault(side + "Shoulder", places[side + "Arm"] + 0.7 * (base - places[side + "Arm"]))
        for above, role in (("Arm", "ForeArm"), ("ForeArm", "Hand"), ("Shin", "Foot"), ("Foot", "ToeBase")):
            bone = scale * (rest[side + role] - rest[side + above])
            places.setdefault(side + role, places[side + above] + bone)


def _bone_vector(skeleton: Skeleton, j: int, heads: np.ndarray) -> np.ndarray | None:
    """From a bone of the reference to the next one of its chain, (3) [m]; None at the end of a chain."""
    following = {"Hips": "Spine", "Spine2": "NeckLower"}.get(skeleton.names[j])
    children = np.flatnonzero(skeleton.parents == j)
    if following is None and not len(children):
        return None
    along = heads[skeleton.names.index(following) if following else children[0]] - heads[j]
    return along if np.linalg.norm(along) > 1e-6 else None
