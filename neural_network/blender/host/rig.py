# SPDX-License-Identifier: GPL-3.0-or-later
"""Which armature is the character, which of its bones are controlled, and how its space is converted to Z-up metres.

*Object space* is Blender's space of the armature, in its own units. *Rig space* is what files and the core call
armature space: metres, with the object's rotation and scale applied and without its location.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import bpy
import numpy as np

from ...core import reference_rig, tree
from ...core import skeleton as skeletons
from ...core.messages import counted
from ...core.skeleton import Skeleton
from ...rigs import creatures, role_edits, roles
from ...rigs.creatures import Effectors

SAME = 1e-3  # [m] a rest pose this close to the reference rig's is the reference rig
NEEDED = ("Hips", "LeftFoot", "RightFoot")  # a human needs these


@dataclass(frozen=True)
class Rig:
    """What :func:`read` found out about an armature object; plain values, so that no Blender data is kept."""

    skeleton: Skeleton
    """The controlled bones, in rig space."""
    bones: tuple[str, ...]
    """(N) names of all pose bones, in Blender's order."""
    parents: np.ndarray
    """(N) int, -1 for bones without a parent."""
    rest: np.ndarray
    """(N, 4, 4) rest matrices of all bones [Blender units, object space]."""
    modes: tuple[str, ...]
    """(N) rotation modes."""
    connected: tuple[bool, ...]
    """(N) whether the bone is connected to its parent: Blender then ignores its location."""
    plain: tuple[bool, ...]
    """(N) whether the bone inherits its parent's movement with the usual settings."""
    index: np.ndarray
    """(J) indices of the skeleton's bones among all."""
    turn: np.ndarray
    """(3, 3) rotation from object space to rig space."""
    unit: float
    """Metres in one unit of object space."""
    notes: tuple[str, ...] = ()
    """Notes for the user, one sentence each."""
    roles: tuple[str, ...] = ()
    """(J) the role of each controlled bone: its name on the reference rig."""
    scaled: bool = False
    """Bones are scaled or moved in the pose: only Blender's own rules of inheritance then give the pose."""

    @property
    def simple(self) -> bool:
        """Whether controlled bones are direct children of each other with usual settings: rot_local is then Blender's basis."""
        if self.scaled:
            return False
        direct = [-1, *self.index[self.skeleton.parents[1:]].tolist()]
        return self.parents[self.index].tolist() == direct and all(self.plain[b] for b in self.index)

    @property
    def needed(self) -> list[int]:
        """The controlled bones and all their ancestors, parents first: what a pose depends on."""
        found = set(self.index.tolist())
        for bone in self.index.tolist():
            found.update(tree.chain(self.parents, bone))
        return sorted(found)

    @cached_property
    def carrier(self) -> int:
        """The bone whose location places the root: the root itself or, where it is connected, the nearest bone above that may move."""
        return next(b for b in tree.chain(self.parents, int(self.index[0])) if not self.connected[b])

    def between(self, bone: int) -> list[int]:
        """The bones from below the nearest controlled ancestor of ``bone`` (an index among all) down to it."""
        controlled = set(self.index.tolist())
        out = [bone]
        while self.parents[out[0]] >= 0 and int(self.parents[out[0]]) not in controlled:
            out.insert(0, int(self.parents[out[0]]))
        return out


def find(context: bpy.types.Context) -> bpy.types.Object:
    """The character's armature object: the active one, that of the active mesh or target, or the only one there is.

    Raises ValueError if there is none, or several to choose from.
    """
    active = context.active_object
    if active is not None and active.type == "ARMATURE":
        return active
    if active is not None and active.type == "MESH":
        armature = active.find_armature()
        if armature is not None:
            return armature
    if active is not None and active.type == "EMPTY":
        holders: Any = active.users_collection  # a target of Live IK is in the collection of its character
        live = [c.neural_ik_live.armature for c in holders if c.neural_ik_live.live and c.neural_ik_live.armature]
        if live and live[0].name in context.view_layer.objects:
            return live[0]
    found = [ob for ob in context.view_layer.objects if ob.type == "ARMATURE"]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(ob.name for ob in found[:5])
        raise ValueError(f"several armatures ({names}): click the one of your character")
    raise ValueError("no armature: select your character's armature, or add the demo character")


@dataclass(frozen=True)
class _Choice:
    """Which bones are controlled, and what they are. Indices are those of all pose bones."""

    bones: list[int]
    effectors: list[int]
    feet: list[int]
    roles: dict[int, str]
    """Bone -> role on the reference rig; of a creature, its own name."""
    notes: list[str]
    t_pose: bool = True
    """Whether arms are turned sideways and legs down before learning, as for people; a creature's rest is kept."""


def read(ob: bpy.types.Object, known: Skeleton | None = None) -> Rig:
    """The Rig of an armature object in its current state. Raises ValueError, in words, for one that cannot be used.

    Controlled bones are those that the panel Effectors names, else those with a role of a human, else, if there are none,
    those that lead to the proposed effectors. With ``known``, its bones are used if they all exist with the same parents.
    """
    if ob.mode == "EDIT":
        raise ValueError(f"{ob.name} is in Edit Mode: leave it first (Tab)")
    if ob.pose is None:  # linked to the scene a moment ago
        bpy.context.view_layer.update()
    if ob.pose is None or not ob.pose.bones:
        raise ValueError(f"{ob.name} has no bones")
    turn, unit = placement(ob)
    bones = ob.pose.bones
    names = tuple(pb.name for pb in bones)
    parents = parents_of(ob)
    rest = np.array([pb.bone.matrix_local for pb in bones], np.float64)
    rest_m = rest.copy()
    rest_m[:, :3, :3] = turn @ rest[:, :3, :3]
    rest_m[:, :3, 3] = rest[:, :3, 3] @ turn.T * unit
    choice = _of_known(ob, known) if known is not None else None
    if choice is None:
        choice = _of_effectors(ob, *given_effectors(ob)) if given_effectors(ob)[1] else _of_roles(ob)
    index = np.array(sorted(choice.bones))
    own_parents = np.full(len(index), -1)
    for j, bone in enumerate(index):
        above = [a for a in tree.chain(parents, int(bone))[1:] if a in index]
        own_parents[j] = int(np.searchsorted(index, above[0])) if above else -1
    ends = ([names[i] for i in choice.effectors], [names[i] for i in choice.feet])
    notes = list(choice.notes)
    if choice.t_pose:
        limits = _limits({role: bone for bone, role in choice.roles.items()}, index, rest_m)
        skeleton = skeletons.make([names[i] for i in index], own_parents, rest_m[index], *ends, limits=limits)
    else:
        rested = np.zeros((len(index), 3))
        skeleton = skeletons.make([names[i] for i in index], own_parents, rest_m[index], *ends, t_pose=rested)
        if skeleton.axes[2, 2] < 0.99:
            notes.append(f"{' and '.join(ends[1])} do not carry {names[index[0]]} from below: they count as no feet.")
            skeleton = skeletons.make(skeleton.names, own_parents, rest_m[index], ends[0], (), t_pose=rested)
    modes = tuple(pb.rotation_mode for pb in bones)
    connected = tuple(pb.bone.use_connect for pb in bones)
    plain = tuple(_plain(pb.bone) for pb in bones)
    own_roles = tuple(choice.roles[int(bone)] for bone in index)
    return Rig(skeleton, names, parents, rest, modes, connected, plain, index, turn, unit, tuple(notes), own_roles)


def placement(ob: bpy.types.Object) -> tuple[np.ndarray, float]:
    """Rotation (3, 3) from object space to rig space, and the metres in one unit of object space.

    Raises ValueError for a zero, negative (mirroring) or uneven scale: such a pose has no rotations of its own.
    """
    matrix = np.array(ob.matrix_world, np.float64)[:3, :3]
    lengths = np.linalg.norm(matrix, axis=0)
    fix = "apply it (Object > Apply > Scale)"
    if not np.isfinite(matrix).all() or lengths.min() < 1e-9:
        raise ValueError(f"{ob.name} has a scale of zero: give it a size and {fix}")
    if np.linalg.det(matrix) < 0:
        raise ValueError(f"{ob.name} has a negative scale, which mirrors it: {fix}")
    turn = matrix / lengths
    if np.ptp(lengths) > 1e-3 * lengths.max() or np.abs(turn.T @ turn - np.eye(3)).max() > 1e-3:
        raise ValueError(f"{ob.name} has an uneven scale ({', '.join(f'{n:.3g}' for n in lengths)}): {fix}")
    u, _, vt = np.linalg.svd(turn)
    return u @ vt, float(lengths.mean()) * metres(ob)


def metres(ob: bpy.types.Object) -> float:
    """Metres in one Blender unit of the scene that ``ob`` is in."""
    scene = next((s for s in ob.users_scene if s == bpy.context.scene), None) or bpy.context.scene
    settings = scene.unit_settings
    return float(settings.scale_length) if settings.system != "NONE" else 1.0


def _plain(bone: bpy.types.Bone) -> bool:
    return bone.use_inherit_rotation and bone.use_local_location and bone.inherit_scale != "NONE_LEGACY"


def parents_of(ob: bpy.types.Object) -> np.ndarray:
    """(N) int: the parent of every pose bone, in Blender's order; -1 for none."""
    place = {pb.name: i for i, pb in enumerate(ob.pose.bones)}
    return np.array([place[pb.parent.name] if pb.parent else -1 for pb in ob.pose.bones], int)


def given_roles(ob: bpy.types.Object) -> dict[str, str]:
    """Role -> bone name as set in the panel Roles for this object; empty if the roles are to be detected."""
    own = getattr(ob, "neural_ik_roles", None)
    return {role: bone for role in roles.ROLE_NAMES if (bone := getattr(own, role, ""))}


def find_roles(ob: bpy.types.Object) -> roles.Roles:
    """The detected roles of an armature: by the reference rig's own names if all exist, else by structure and names.

    Indices are those of the pose bones.
    """
    names = tuple(pb.name for pb in ob.pose.bones)
    if set(roles.ROLE_NAMES) <= set(names):
        return roles.named_roles({role: role for role in roles.ROLE_NAMES}, names)
    turn, unit = placement(ob)
    parents = parents_of(ob)
    heads, tails = (np.array([getattr(pb.bone, end) for pb in ob.pose.bones]) for end in ("head_local", "tail_local"))
    tips = {i: tails[i] @ turn.T * unit for i in range(len(names)) if i not in parents}
    return roles.find_roles(names, parents, heads @ turn.T * unit, tips=tips)


def given_effectors(ob: bpy.types.Object) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Names of the body bone, the effectors and the feet among them, as set in the panel Effectors for this object."""
    own = getattr(ob, "neural_ik_ends", None)
    texts = [getattr(own, what, "") for what in ("effectors", "feet")]
    effectors, feet = (tuple(name for name in text.split("\n") if name) for text in texts)
    return getattr(own, "body", ""), effectors, feet


def find_effectors(ob: bpy.types.Object) -> Effectors:
    """Effectors proposed from an armature's tree; bones that only control others are ignored.

    Indices are those of the pose bones.
    """
    turn, unit = placement(ob)
    bones = ob.pose.bones
    if not bones:
        raise ValueError(f"{ob.name} has no bones")
    place = {pb.name: i for i, pb in enumerate(bones)}
    aims: set[int] = set()
    for pb in bones:
        for constraint in pb.constraints:
            for word in ("subtarget", "pole_subtarget"):
                aim = place.get(getattr(constraint, word, ""))
                if aim is not None and getattr(constraint, word.replace("sub", ""), None) == ob:
                    aims.add(aim)
    deforms = [pb.bone.use_deform for pb in bones]
    parents = parents_of(ob)
    if any(deforms):
        carries = set()
        for i in np.flatnonzero(deforms).tolist():
            carries.update(tree.chain(parents, i))
        aims = {i for i in aims if not deforms[i]} | (set(range(len(bones))) - carries)
    heads = np.array([pb.bone.head_local for pb in bones], np.float64) @ turn.T * unit
    return creatures.find_effectors(list(place), parents, heads, excluded=aims)


def _of_known(ob: bpy.types.Object, known: Skeleton) -> _Choice | None:
    """The bones of a skeleton that weights were trained for; None unless this armature has them with the same parents."""
    place = {pb.name: i for i, pb in enumerate(ob.pose.bones)}
    if not set(known.names) <= set(place):
        return None
    index = [place[name] for name in known.names]
    parents = parents_of(ob)
    for bone, above in zip(index, known.parents.tolist(), strict=True):
        line = [a for a in tree.chain(parents, bone)[1:] if a in index]
        if (line[0] if line else -1) != (index[above] if above >= 0 else -1):
            return None
    if index != sorted(index):
        return None
    effectors, feet = ([index[e] for e in ends] for ends in (known.effectors, known.feet))
    human = set(known.names) <= set(roles.ROLE_NAMES) or bool(np.any(known.t_pose))
    return _Choice(index, effectors, feet, dict(zip(index, known.names, strict=True)), [], human)


def _of_effectors(ob: bpy.types.Object, body: str, effectors: tuple[str, ...], feet: tuple[str, ...]) -> _Choice:
    """The bones that lead from the body to the effectors, given by name; without a body, from where they meet."""
    names = [pb.name for pb in ob.pose.bones]
    missing = [name for name in (body, *effectors, *feet) if name and name not in names]
    if missing:
        raise ValueError(
            f"{ob.name} has no bone called {', '.join(missing)}, which the Effectors panel lists: press Find Effectors or change the list"
        )
    parents = parents_of(ob)
    ends = [names.index(name) for name in effectors]
    lines = [tree.chain(parents, end) for end in ends]
    if body:
        top = names.index(body)
        loose = [name for name, line in zip(effectors, lines, strict=True) if top not in line[1:]]
        if loose:
            raise ValueError(
                f"{', '.join(loose)} of {ob.name} are not below {body}: choose a body bone above all effectors, or "
                "remove them"
            )
    else:
        shared = [bone for bone in lines[0][1:] if all(bone in line[1:] for line in lines)]
        if not shared:
            raise ValueError(
                f"{', '.join(effectors)} of {ob.name} have no common ancestor: give them one, or remove some"
            )
        top = shared[0]
    heads = np.array([pb.bone.head_local for pb in ob.pose.bones], np.float64)
    bones = creatures.controlled_bones(parents, heads, top, ends)
    standing = [names.index(name) for name in feet if name in effectors]
    return _Choice(bones, ends, standing, {b: names[b] for b in bones}, [], t_pose=False)


def _of_roles(ob: bpy.types.Object) -> _Choice:
    """The bones with roles; for a rig without any, those that lead to the proposed effectors."""
    chosen, notes = _controlled(ob, tuple(pb.name for pb in ob.pose.bones), parents_of(ob))
    if chosen:
        effectors = [chosen[role] for role in reference_rig.EFFECTORS if role in chosen]
        feet = [chosen[role] for role in reference_rig.FEET]
        return _Choice(list(chosen.values()), effectors, feet, {bone: role for role, bone in chosen.items()}, notes)
    names = [pb.name for pb in ob.pose.bones]
    found = find_effectors(ob)
    ends = [end for end in found.effectors if end != found.body]
    if not ends:
        raise ValueError(
            f"{ob.name}: found no effectors among its {counted(len(names), 'bone')}; "
            "pick effectors in the panel Effectors" + "".join(f"; {note}" for note in notes)
        )
    choice = _of_effectors(
        ob, names[found.body], tuple(names[e] for e in ends), tuple(names[f] for f in found.feet if f in ends)
    )
    said = (
        f"{ob.name} is read as a creature: {', '.join(names[e] for e in ends)} are its effectors, "
        f"{', '.join(names[f] for f in found.feet) or 'none'} its feet, {names[found.body]} its body. "
        "The panel Effectors changes that."
    )
    return replace(choice, notes=[said])


def _controlled(ob: bpy.types.Object, names: tuple[str, ...], parents: np.ndarray) -> tuple[dict[str, int], list[str]]:
    """Role -> bone, as the user set them or else as detected, and notes; no roles if the rig is not a human."""
    notes: list[str] = []
    given = given_roles(ob)
    if given:
        found = roles.named_roles(given, names, f"the roles of {ob.name}")
        wrong = role_edits.problems(given, names, parents)
        notes += [f"{role} in the roles of {ob.name}: {words}." for role, words in wrong.items()]
    else:
        found = find_roles(ob)
        notes += found.notes
    chosen = {role: int(bone) for role, bone in found.bones.items() if bone is not None}
    if not chosen:
        return {}, notes
    missing = [role for role in NEEDED if role not in chosen]
    if missing:
        raise ValueError(
            f"{ob.name}: found no bone for {', '.join(missing)} among its {counted(len(names), 'bone')}; "
            "choose them in the panel Roles, or name them as common rigs do (Hips, LeftFoot, RightFoot); a body without them is "
            "posed by the ends of its limbs: press Find Effectors in the panel Effectors"
            + "".join(f"; {note}" for note in notes)
        )
    hips = chosen["Hips"]
    loose = [role for role, bone in chosen.items() if hips not in tree.chain(parents, bone)]
    if any(role in NEEDED for role in loose):
        raise ValueError(
            f"{ob.name}: {', '.join(names[chosen[r]] for r in loose)} are not below {names[hips]}{_generated(names) or _APART}"
        )
    for role in loose:
        notes.append(f"{names[chosen.pop(role)]} was left out: it is not below {names[hips]}")
    return chosen, notes


_APART = (
    ", so they do not follow the limbs: parent them to the limbs in Edit Mode (Ctrl P, Keep Offset), or press Find Effectors in the "
    "panel Effectors, which poses this rig by the ends of its limbs"
)


def _generated(names: tuple[str, ...]) -> str:
    """What to do with a generated Rigify rig, whose deforming bones hang on its mechanism; empty for any other."""
    if not all(any(name.startswith(prefix) for name in names) for prefix in ("DEF-", "ORG-")):
        return ""
    return (
        ": this is a generated control rig; Live IK, Extract Data and Import Mocap use the controls of a complete human, everything "
        "else needs its metarig or a game rig"
    )


@cache
def _reference() -> Skeleton:
    """The reference rig, built once: rigs are read whenever Live IK starts."""
    return reference_rig.reference()


def _limits(chosen: dict[str, int], index: np.ndarray, rest: np.ndarray) -> np.ndarray | None:
    """The anatomical limits if this is the reference rig itself; else None, and they are found from the poses."""
    reference = _reference()
    if set(chosen) != set(reference.names):
        return None
    own = rest[[chosen[name] for name in reference.names]]
    if np.abs(own - reference.rest_arm).max() > SAME or reference.limits is None:
        return None
    order = [reference.names.index(next(r for r, b in chosen.items() if b == bone)) for bone in index]
    return reference.limits[order]
