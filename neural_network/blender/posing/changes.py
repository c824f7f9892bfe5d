# SPDX-License-Identifier: GPL-3.0-or-later
"""What changed about a character while it is live: noticed at Blender's next update, taken in, or said in words.

Live IK waits while bones cannot be posed (Edit Mode, Rest Position, constraints, drivers, not in the scene), goes on by itself
once they can, and reads the rig again when its bones have changed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..host import control_rigs, proportions, rig_checks, runtime
from ..host.control_rigs import ControlRig
from . import live_ik, scene_targets, solving
from .signature import signature
from .state import (
    BASE,
    BEFORE,
    BONES,
    LiveCharacter,
    anchor,
    characters,
    is_in,
    replaced,
    store_channels,
    unsolvable,
    use,
)


def take_in(live: LiveCharacter, collection: Any, ob: Any, scene: Any) -> bool:
    """Look at what may have changed about a character. Returns whether it must be solved again.

    Afterwards ``live.suspended`` says why it cannot be solved, if it cannot. A character that has to be read again is no longer
    in ``state.characters``.
    """
    waited = live.suspended
    live.suspended = waits(live, collection, ob, scene)
    if live.suspended:
        if ob is not None and ob.pose is not None and ob.mode != "EDIT" and names_fit(live, ob):
            _color_by_what_is_shown(live, ob)
        return False
    if not _read_again(live, collection, ob):
        return False
    return _take_lengths(live, collection, ob) or bool(waited)


def waits(live: LiveCharacter, collection: Any, ob: Any, scene: Any) -> str:
    """Why a character cannot be solved now, and what to do; empty if it can."""
    if ob is None:
        return "The character was deleted: Cancel removes its targets"
    if not is_in(ob, scene.objects):
        return f"{ob.name} is no longer in this scene: undo, or Cancel" if solving.in_scene(collection, scene) else ""
    if ob.mode == "EDIT":
        return f"{ob.name} is in Edit Mode: Live IK goes on when you leave it (Tab)"
    if ob.pose is None:
        return f"the bones of {ob.name} are not known yet: Live IK goes on once Blender has evaluated them"
    if ob.data.pose_position == "REST":
        return f"{ob.name} is shown in Rest Position: switch to Pose Position (Armature properties)"
    found, known = signature(ob), live.signature
    if (known is None or found.others != known.others) and found.names == live.rig.bones:
        live.blocked = _override(live, ob)
        if known is not None:
            live.signature = known._replace(others=found.others)
    return live.blocked


def _override(live: LiveCharacter, ob: Any) -> str:
    """Which constraint or driver would override Live IK; empty if none does."""
    if not isinstance(live.rig, ControlRig):
        return rig_checks.refusal(ob, live.rig)
    try:
        control_rigs.read(ob, live.solver.net)
    except ValueError as error:
        return str(error)
    return ""


def names_fit(live: LiveCharacter, ob: Any) -> bool:
    """Whether the armature still has as many bones as the rig that was read."""
    return ob.pose is not None and len(ob.pose.bones) == len(live.rig.bones)


def _read_again(live: LiveCharacter, collection: Any, ob: Any) -> bool:
    """Read the rig again if its bones changed. Returns False if ``live`` is no longer the character."""
    found, known = signature(ob), live.signature
    live.signature = found
    if known is None or found == known:
        return True
    renamed = dict(zip(known.names, found.names, strict=False)) | {"": ""}
    if (
        found.names != known.names
        and len(found.names) == len(known.names)
        and found.shape == known.shape
        and found.parents == tuple(renamed[parent] for parent in known.parents)
    ):
        live.rig, live.at_rest = (replace(rig, bones=found.names) for rig in (live.rig, live.at_rest))
        collection[BONES] = "\n".join(found.names)
        known = known._replace(names=found.names, parents=found.parents)
    if found.names != known.names or found.parents != known.parents:
        characters.pop(live.collection, None)
        replaced.add(live.collection)
        unsolvable[live.collection] = (
            "Bones were added, deleted or moved to other parents: undo, or Cancel and start again"
        )
        return False
    if found.shape != known.shape or found.size != known.size:
        live_ik.rebuild(collection)
        return False
    if found.modes != known.modes:
        _take_modes(live, collection, found.modes)
    return True


def _take_modes(live: LiveCharacter, collection: Any, modes: tuple[str, ...]) -> None:
    """Bones have other rotation modes now: convert the stored poses, as Blender converted the one it shows."""
    bones = [b for b, mode in enumerate(modes) if mode != live.rig.modes[b]]
    for channels, key in ((live.base, BASE), (live.before, BEFORE)):
        quaternions = rig_checks.own_quaternions(live.rig, channels, bones)
        for bone, quaternion in zip(bones, quaternions, strict=True):
            name = runtime.rotation_channel(modes[bone])
            channels[name].reshape(len(modes), -1)[bone] = runtime.in_mode(quaternion[None], modes[bone])[0]
        store_channels(collection, key, channels)
    live.at_rest = replace(live.at_rest, modes=modes)
    use(live, replace(live.rig, modes=modes))
    live.watched = proportions.watched(live.at_rest, live.base)


def _take_lengths(live: LiveCharacter, collection: Any, ob: Any) -> bool:
    """Take in bones between controlled ones, scales and locations that were changed by hand; returns whether any were."""
    now = runtime.snapshot(ob)
    if np.array_equal(proportions.watched(live.at_rest, now), proportions.watched(live.at_rest, live.base)):
        return False
    live.base = proportions.take_watched(live.at_rest, live.base, now)
    store_channels(collection, BASE, live.base)
    try:
        anchor(live, ob)
    except ValueError as error:
        live.suspended = str(error)
        return False
    return True


def _color_by_what_is_shown(live: LiveCharacter, ob: Any) -> None:
    """While Live IK waits, targets are green only where the bones are at them."""
    count = len(live.rig.skeleton.effectors)
    if len(live.targets) <= count:
        return
    transforms, _ = scene_targets.read_transforms(live, ob)
    live.errors = np.linalg.norm(solving.shown_heads(live, ob) - transforms[: count + 1, :3], axis=1)
    scene_targets.update_colors(live)
