# SPDX-License-Identifier: GPL-3.0-or-later
"""What bones follow: bones and objects that they depend on by parents, constraints and drivers, in any armature."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import bpy

Follows = tuple[bpy.types.Object, str]
"""An object and a bone of it; an empty name stands for the object's own transform."""

_BONE = re.compile(r'pose\.bones\["((?:[^"\\]|\\.)*)"\]')


def bone_of(path: str) -> str | None:
    """The pose bone that a data path belongs to; None if it is not about a pose bone."""
    found = _BONE.match(path)
    return bpy.utils.unescape_identifier(found[1]) if found else None


def movers(ob: bpy.types.Object, bones: Iterable[str]) -> dict[bpy.types.Object, set[str]]:
    """The objects that ``bones`` of ``ob`` follow, ``ob`` first -> those of their bones that matter.

    The empty name among the bones of another object means that its own transform matters, through a constraint or driver.
    Objects that only carry the character along, as its parent does, are not listed.
    """
    found: dict[bpy.types.Object, set[str]] = {ob: set()}
    todo: list[Follows] = [(ob, name) for name in bones] + [(ob, "")]
    known: dict[bpy.types.Object, _Links] = {}
    while todo:
        who, bone = todo.pop()
        if bone in found.setdefault(who, set()):
            continue
        found[who].add(bone)
        if who not in known:
            known[who] = _Links(who)
        todo += known[who].of(bone)
    found[ob].discard("")
    return found


class _Links:
    """What each bone of one object follows."""

    def __init__(self, ob: bpy.types.Object) -> None:
        self.ob = ob
        self.solved: dict[str, list[str]] = {}
        self.driven: dict[str, list[Follows]] = {}
        for pb in ob.pose.bones if ob.pose is not None else ():
            for constraint in pb.constraints:
                if constraint.type in ("IK", "SPLINE_IK") and not constraint.mute:
                    for name in ik_chain(ob, pb, constraint):
                        self.solved.setdefault(name, []).append(pb.name)
        for holder in (ob, ob.data):
            data = holder.animation_data if holder is not None else None
            for curve in data.drivers if data is not None else ():
                bone = _bone_of_holder(curve.data_path)
                if not curve.mute and curve.driver is not None:
                    self.driven.setdefault(bone, []).extend(_of_driver(curve.driver))

    def of(self, bone: str) -> Iterator[Follows]:
        """What a bone follows, or with an empty name the object."""
        yield from self.driven.get(bone, ())
        if not bone:
            yield from _aims(self.ob.constraints)
            for modifier in self.ob.modifiers:
                aim: Any = getattr(modifier, "object", None)
                if modifier.type == "HOOK" and aim is not None:
                    yield aim, getattr(modifier, "subtarget", "")
            parent = self.ob.parent
            if parent is not None and self.ob.parent_type == "BONE" and self.ob.parent_bone:
                yield parent, self.ob.parent_bone
            return
        pb = self.ob.pose.bones.get(bone) if self.ob.pose is not None else None
        if pb is None:
            return
        if pb.parent is not None:
            yield self.ob, pb.parent.name
        for owner in self.solved.get(bone, ()):
            yield self.ob, owner
        yield from _aims(pb.constraints)


def ik_chain(ob: bpy.types.Object, pb: bpy.types.PoseBone, constraint: Any) -> list[str]:
    """The bones that an IK or Spline IK constraint on ``pb`` moves."""
    link = pb if getattr(constraint, "use_tail", True) else pb.parent
    count = constraint.chain_count or len(ob.pose.bones)
    out = []
    while link is not None and count > 0:
        out.append(link.name)
        link, count = link.parent, count - 1
    return out


def _bone_of_holder(path: str) -> str:
    """The bone that a driver of an object or of its armature shapes; empty for the object itself."""
    bone = bone_of(path)
    if bone is None and path.startswith('bones["'):
        bone = bone_of("pose." + path)
    return bone or ""


def _aims(constraints: Iterable[Any]) -> Iterator[Follows]:
    for constraint in constraints:
        if constraint.mute:
            continue
        pairs = [(getattr(constraint, f"{pole}target", None), f"{pole}subtarget") for pole in ("", "pole_")]
        aims = [(target, getattr(constraint, name, "")) for target, name in pairs]
        aims += [(entry.target, entry.subtarget) for entry in getattr(constraint, "targets", ())]
        for target, bone in aims:
            if target is not None:
                yield target, bone if target.pose is not None and bone in target.pose.bones else ""


def _of_driver(driver: bpy.types.Driver) -> Iterator[Follows]:
    for variable in driver.variables:
        for target in variable.targets:
            who: Any = target.id
            if isinstance(who, bpy.types.Object):
                yield who, target.bone_target or bone_of(target.data_path or "") or ""
            elif isinstance(who, bpy.types.Armature):  # a property of the armature, which may be driven in turn
                yield from ((ob, _bone_of_holder(target.data_path or "")) for ob in bpy.data.objects if ob.data == who)
