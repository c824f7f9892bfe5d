# SPDX-License-Identifier: GPL-3.0-or-later
"""What an extraction doubts: takes that stand still, that repeat another, and what poses cannot hold of them."""

from __future__ import annotations

from collections.abc import Iterable

import bpy
import numpy as np

from ...core.messages import counted
from ..host import actions as blender_actions
from ..host import dependencies
from ..host.rig import Rig
from ..host.runtime import rotation_channel
from .takes import ACTION, OBJECT_CHANNELS, Movers, Sampled, Take, channel_paths, curves_of

LOOSE = 0.002  # of the body's size: a bone that is farther from where it is shown is reported
SHEARED = 1.0  # [degrees] the same for its axes
SAME = 1e-4  # [rad, m] poses nearer than this are equal
_ROTATIONS = ("rotation_quaternion", "rotation_euler", "rotation_axis_angle")


def loss(rig: Rig, take: Take, sampled: Sampled) -> list[str]:
    """What the poses do not show of a take: in poses every bone keeps its length, its place on its parent and its axes."""
    out = []
    size = float(np.ptp(rig.skeleton.rest_arm[:, :3, 3], axis=0).max())
    moved = np.flatnonzero(sampled.lost > LOOSE * size)
    if len(moved):
        worst = int(np.argmax(sampled.lost))
        what = "1 bone from its place on its parent" if len(moved) == 1 else ""
        what = what or f"{len(moved)} bones from their places on their parents"
        out.append(
            f"{take.name} moves {what}, which poses leave out: "
            f"{rig.skeleton.names[worst]} is up to {sampled.lost[worst] * 1000:.0f} mm from where Blender shows it."
        )
    angle = float(np.degrees(sampled.turned))
    if angle > SHEARED:
        out.append(
            f"{take.name} shears bones by uneven scale: their axes are up to {angle:.0f} degrees from those shown."
        )
    return out


def left_behind(ob: bpy.types.Object, movers: Movers, takes: Iterable[Take]) -> list[str]:
    """A note where bones follow something that is animated by itself, which no single action on the character plays."""
    takes = list(takes)
    played = {who for take in takes for who, _ in take.plays}
    names = []
    for who, bones in movers.items() if any(take.kind == ACTION for take in takes) else ():
        paths = (*OBJECT_CHANNELS, *(f'pose.bones["{bpy.utils.escape_identifier(b)}"]' for b in bones if b))
        curves = blender_actions.playing(who.animation_data) if who != ob and who not in played else ()
        if any(curve.data_path.startswith(paths) and blender_actions.plays(curve) for curve in curves):
            names.append(who.name)
    if not names:
        return []
    return [
        f"Bones of {ob.name} follow {', '.join(names)}, whose own animation single actions leave out: switch on Timeline to"
        " take what is shown."
    ]


def still(ob: bpy.types.Object, rig: Rig, take: Take, sampled: Sampled) -> tuple[list[str], bool]:
    """A note where all poses of a take are equal, and whether it shows nothing at all, so that it is left out."""
    travels = float(np.ptp(sampled.root, axis=0).max()) > SAME
    if take.kind == ACTION and not np.abs(sampled.rot).max() > SAME:
        reason = _why_wrong_modes(ob, rig, take) if travels else why_no_effect(ob, rig, take)
        if reason:
            return [f"{take.name} was left out: it shows only the rest pose, because {reason}."], True
    count = len(sampled.rot)
    if count < 2 or float(np.ptp(sampled.rot, axis=0).max()) > SAME:
        return [], False
    moves = ", and only the root moves" if travels else ""
    return [f"{take.name} stands still: its {count} poses are equal{moves}."], False


def same_motion(one: Sampled, other: Sampled) -> bool:
    """Whether two takes show the same poses."""
    return one.rot.shape == other.rot.shape and bool(
        np.abs(one.rot - other.rot).max() < SAME and np.abs(one.root - other.root).max() < SAME
    )


def why_no_effect(ob: bpy.types.Object, rig: Rig, take: Take) -> str:
    """Why curves of the controlled bones move nothing, in words; empty if nothing speaks against them."""
    wrong = _why_wrong_modes(ob, rig, take)
    if wrong:
        return wrong
    muted = [curve for curve in _on_bones(ob, rig, take) if not blender_actions.plays(curve)]
    if muted:
        return "its curves are muted"
    follow = [pb for pb in (ob.pose.bones[i] for i in rig.needed) if any(not c.mute for c in pb.constraints)]
    if follow:
        return (
            f"constraints override it ({follow[0].name} has {next(c.name for c in follow[0].constraints if not c.mute)}"
            + (f", and so have {counted(len(follow) - 1, 'more bone')})" if len(follow) > 1 else ")")
        )
    data = ob.animation_data
    driven = {dependencies.bone_of(d.data_path) for d in data.drivers} if data is not None else set()
    if driven & {rig.bones[i] for i in rig.needed}:
        return "drivers override it"
    return ""


def _why_wrong_modes(ob: bpy.types.Object, rig: Rig, take: Take) -> str:
    """The first of these reasons: rotation keys for another rotation mode; empty if there are none."""
    wrong, modes = _wrong_modes(ob, rig, take)
    if not wrong:
        return ""
    return f"its rotation keys are for another rotation mode than that of the bones ({', '.join(sorted(modes))})"


def mismatched(ob: bpy.types.Object, rig: Rig, take: Take) -> list[str]:
    """A note where some bones have rotation keys that do not play, because the bones are in another rotation mode."""
    wrong, modes = _wrong_modes(ob, rig, take)
    if not wrong:
        return []
    return [
        f"{take.name} has rotation keys that do not play on {counted(len(wrong), 'bone')} ({', '.join(wrong[:3])}): they are for another "
        f"rotation mode than that of the bones ({', '.join(sorted(modes))})."
    ]


def _wrong_modes(ob: bpy.types.Object, rig: Rig, take: Take) -> tuple[list[str], set[str]]:
    """The needed bones that have rotation keys, but none for their own mode, and their modes."""
    own = curves_of(take, ob, channel_paths(rig.bones)).own
    wrong: list[str] = []
    modes: set[str] = set()
    for bone in rig.needed:
        keyed = {channel for b, channel in own if b == bone and channel in _ROTATIONS}
        if keyed and rotation_channel(rig.modes[bone]) not in keyed:
            wrong.append(rig.bones[bone])
            modes.add(rig.modes[bone])
    return wrong, modes


def _on_bones(ob: bpy.types.Object, rig: Rig, take: Take) -> list[bpy.types.FCurve]:
    """All curves of a take for the needed bones, whether they play or not."""
    if take.action is None or all(who != ob for who, _ in take.plays):
        return []
    needed = {rig.bones[i] for i in rig.needed}
    return [
        curve
        for curve in blender_actions.curves(take.action, take.slot(ob))
        if dependencies.bone_of(curve.data_path) in needed
    ]
