# SPDX-License-Identifier: GPL-3.0-or-later
"""Motion from any skeleton to any other, through a common T-pose, with feet that stay in place while they stand.

Both skeletons are brought, bone by bone, into one T-pose: that of the reference rig, facing -Y, left +X, Z up. What a bone
has turned since *its* T-pose, in world axes, is what the matching bone of the other skeleton turns too; so rest poses,
bone axes, rolls and names do not matter. Lengths differ, so the legs are solved at the end: ankles follow the source's,
scaled to the leg, and a foot that stands is pinned in place.
All frames are armature axes: metres, Z up.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..core.reference_rig import reference
from ..core.rotations import axis_angle_from_matrix, matrix_from_axis_angle, slerp, twist_about
from ..core.skeleton import Skeleton
from ..motion.clip import Clip
from .bone_tree import ancestors
from .foot_placement import place, planted_frames
from .proportions import proportioned_reference
from .rig_body import (
    RigBody,
    RigMotion,
    clip_motion,
    clip_roles,
    posed_heads,
    require_legs,
    skeleton_body,
    with_tremble,
)
from .roles import ROLE_NAMES, Roles
from .t_pose import rest_to_t_pose, t_pose_rotations

WRIST_TWIST_LEFT = 1 / 3  # share of the hand's twist that stays at the wrist; the forearm turns with the rest

_TRUNK = ("Spine", "Spine1", "Spine2")
_NECK = ("NeckLower", "NeckUpper")


def to_reference(clip: Clip, roles: Roles | None = None) -> tuple[Skeleton, np.ndarray, np.ndarray]:
    """Retarget a clip of any humanoid to the built-in reference rig.

    ``roles`` are detected from names, structure and motion if they are not given. Returns the reference skeleton,
    rot_local (F, 23, 3) [rad] and the head of the Hips (F, 3) [m, armature], with the floor at z = 0. A clip without frames
    gives arrays of length 0. Raises ValueError for a clip without legs or hips.
    """
    skeleton = reference()
    own = {name: i for i, name in enumerate(skeleton.names) if name in ROLE_NAMES}
    rot, root_pos = retarget(clip, skeleton, own, roles)
    return skeleton, rot, root_pos


def to_proportioned_reference(clip: Clip, roles: Roles | None = None) -> tuple[Skeleton, np.ndarray, np.ndarray]:
    """Same as :func:`to_reference`, but to the reference's bones in this body's own lengths, so that nothing is scaled.

    This is how one network serves many rigs: names and tree are always the reference's, only proportions differ. Bones
    that the body lacks are placed between their neighbours and follow them.
    """
    if roles is None:
        roles = clip_roles(clip)
    source, motion = clip_motion(clip, roles)
    require_legs(source.bones, "clip", roles.notes)
    t_pose = t_pose_rotations(source, motion, planted_frames(source, motion))
    skeleton = proportioned_reference(source, t_pose)
    own = {name: j for j, name in enumerate(skeleton.names) if name in source.bones}
    rot, root_pos = retarget(clip, skeleton, own, roles)
    return skeleton, rot, root_pos


def retarget(
    clip: Clip,
    target: Skeleton,
    target_roles: Roles | Mapping[str, int],
    roles: Roles | None = None,
    plant: bool = True,
    hand_tails: Mapping[str, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Retarget a clip to ``target``, whose bones have ``target_roles`` (role -> bone index).

    ``plant`` as in :func:`.place`, ``hand_tails`` as in :func:`.skeleton_body`.

    Returns rot_local (F, J, 3) [rad], relative to the target's own rest, and the root's head (F, 3) [m, armature]. Bones
    without a role keep their rest pose; bones above the Hips turn with the Hips, so that one root moves everything. A role
    that the source lacks follows its neighbours. Raises ValueError if source or target lack hips or legs.
    """
    if roles is None:
        roles = clip_roles(clip)
    source, motion = clip_motion(clip, roles)
    body = skeleton_body(target, target_roles, hand_tails)
    require_legs(source.bones, "clip", roles.notes)
    require_legs(body.bones, "target")
    turned, root_pos = carry(source, motion, body, plant)
    return local_rotations(target, turned), root_pos


def carry(source: RigBody, motion: RigMotion, target: RigBody, plant: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Carry a world motion to ``target``: rotations of its bones since rest (F, J, 3, 3) in world axes, and its root (F, 3) [m].

    The floor of the result is at z = 0: the 2nd percentile of the lower foot's height above its own rest.
    """
    motion = with_tremble(source, motion)
    source_t_pose = t_pose_rotations(source, motion, planted_frames(source, motion))
    target_t_pose = rest_to_t_pose(target)
    since_t = {role: motion.turned[:, j] @ np.swapaxes(source_t_pose[role], -1, -2) for role, j in source.bones.items()}
    since_t = _for_roles(since_t, target.bones)
    for side in ("Left", "Right"):
        if {side + "ForeArm", side + "Hand"} <= set(source.bones):
            since_t[side + "ForeArm"] = _pronated(since_t[side + "ForeArm"], since_t[side + "Hand"], side)
    turned = _turned(target, since_t, target_t_pose)
    turned, heads = place(source, motion, target, turned, since_t, target_t_pose, plant)
    roots, hips = np.flatnonzero(target.parents < 0), target.bones["Hips"]
    return turned, heads[:, hips if hips in roots else int(roots[0])]


def carry_exactly(
    body: Skeleton, turned: np.ndarray, root_pos: np.ndarray, target: Skeleton, roles: Mapping[str, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Motion of the reference's bones in a body's own lengths, onto that body: nothing is placed anew, on any floor.

    ``body`` comes from :func:`.proportions.proportioned_reference` for ``target``; ``turned`` (F, 23, 3, 3) are rotations since
    its T-pose in world axes, ``root_pos`` (F, 3) [m] its Hips' heads. ``roles`` say which bones of ``target`` play what.
    Returns rot_local (F, J, 3) [rad] and the root's head (F, 3) [m, armature] of ``target``.
    """
    aimed = skeleton_body(target, roles)
    require_legs(aimed.bones, "target")
    t_pose = rest_to_t_pose(aimed)
    since_t = {name: turned[:, j] for j, name in enumerate(body.names) if name in aimed.bones}
    out = _turned(aimed, _for_roles(since_t, aimed.bones), t_pose)
    heads = posed_heads(aimed, out)
    thighs = [aimed.bones["LeftThigh"], aimed.bones["RightThigh"]]
    middle = 0.5 * (body.offsets[body.names.index("LeftThigh")] + body.offsets[body.names.index("RightThigh")])
    wanted = root_pos + turned[:, 0] @ middle
    root = int(np.flatnonzero(np.asarray(target.parents) < 0)[0])
    return local_rotations(target, out), heads[:, root] + wanted - heads[:, thighs].mean(axis=1)


def _turned(target: RigBody, since_t: Mapping[str, np.ndarray], t_pose: Mapping[str, np.ndarray]) -> np.ndarray:
    """Rotations since rest (F, J, 3, 3) of a body whose roles have turned so since the T-pose; others go with their parents."""
    turned = np.empty((len(since_t["Hips"]), len(target.parents), 3, 3))
    role_of = {j: role for role, j in target.bones.items()}
    above_hips = set(ancestors(target.parents, target.bones["Hips"]))
    for j, parent in enumerate(target.parents.tolist()):
        if j in role_of:
            turned[:, j] = since_t[role_of[j]] @ t_pose[role_of[j]]
        elif j in above_hips:
            turned[:, j] = since_t["Hips"] @ t_pose["Hips"]
        else:
            turned[:, j] = turned[:, parent] if parent >= 0 else np.eye(3)
    return turned


def local_rotations(target: Skeleton, turned: np.ndarray) -> np.ndarray:
    """World rotations since rest (F, J, 3, 3) to rot_local (F, J, 3) [rad] in each bone's own rest axes."""
    rest, parents = np.asarray(target.rest_arm, float)[:, :3, :3], np.asarray(target.parents)
    above = np.where((parents >= 0)[:, None, None], turned[:, parents], np.eye(3))
    since_parent = np.swapaxes(above, -1, -2) @ turned
    return axis_angle_from_matrix(np.swapaxes(rest, -1, -2) @ since_parent @ rest)


def _for_roles(since_t: Mapping[str, np.ndarray], wanted: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Rotations (F, 3, 3) for every wanted role, spread along spine and neck if the rigs have different numbers of bones."""
    out = dict(since_t)
    hips = out["Hips"]
    trunk = [r for r in _TRUNK if r in since_t]
    wanted_trunk = [r for r in _TRUNK if r in wanted]
    out.update(_spread([hips] + [since_t[r] for r in trunk], wanted_trunk))
    chest = out[wanted_trunk[-1]] if wanted_trunk else (since_t[trunk[-1]] if trunk else hips)
    head = since_t.get("Head")
    neck = [since_t[r] for r in _NECK if r in since_t]
    wanted_neck = [r for r in _NECK if r in wanted]
    if neck:
        out.update(_spread([chest, *neck], wanted_neck))
    else:
        top = chest if head is None else head
        out.update({r: _between(chest, top, (i + 1) / (len(wanted_neck) + 1)) for i, r in enumerate(wanted_neck)})
    out.setdefault("Head", out[wanted_neck[-1]] if wanted_neck else chest)
    for side in ("Left", "Right"):
        for chain in (("Shoulder", "Arm", "ForeArm", "Hand"), ("Thigh", "Shin", "Foot", "ToeBase")):
            above = chest if chain[0] == "Shoulder" else hips
            for part in chain:
                above = out.setdefault(side + part, above)
    return out


def _spread(chain: list[np.ndarray], wanted: list[str]) -> dict[str, np.ndarray]:
    """A rotation (F, 3, 3) for each wanted bone, interpolated along a chain of rotations from its first to its last."""
    if len(chain) == 1:
        return dict.fromkeys(wanted, chain[0])
    out = {}
    for i, role in enumerate(wanted):
        position = (i + 1) / len(wanted) * (len(chain) - 1)
        low = min(int(np.floor(position + 1e-9)), len(chain) - 2)
        share = position - low
        out[role] = chain[low + 1] if share > 1 - 1e-9 else _between(chain[low], chain[low + 1], share)
    return out


def _pronated(forearm: np.ndarray, hand: np.ndarray, side: str) -> np.ndarray:
    """Forearms (F, 3, 3) that turn with the hand: many files twist only the wrist, which would pinch the skin there."""
    along = np.array([1.0 if side == "Left" else -1.0, 0, 0])
    twist = twist_about(axis_angle_from_matrix(np.swapaxes(forearm, -1, -2) @ hand), along)
    return np.asarray(forearm @ matrix_from_axis_angle((1 - WRIST_TWIST_LEFT) * twist[:, None] * along))


def _between(a: np.ndarray, b: np.ndarray, share: float) -> np.ndarray:
    return matrix_from_axis_angle(slerp(axis_angle_from_matrix(a), axis_angle_from_matrix(b), share))
