# SPDX-License-Identifier: GPL-3.0-or-later
"""What changed about a character while it is live: noticed at Blender's next update, taken in, or said in words.

Live IK waits while bones cannot be posed (Edit Mode, Rest Position, constraints, drivers, not in the scene), goes on by itself
once they can, and reads the rig again when its bones have changed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import bpy
import numpy as np

from ..host import actions, control_rigs, proportions, rig_checks, runtime
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
    settings_of,
    store_channels,
    target_objects,
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
            solving.color_by_what_is_shown(live, ob, scene_targets.read_transforms(live, ob)[0])
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
        control_rigs.read(ob, live.solver.net.skeleton)
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


class Watch:
    """What a bake depends on, as it was when the bake began."""

    def __init__(self, scene: Any, live: LiveCharacter, collection: Any) -> None:
        """Look at it."""
        ob = settings_of(collection).armature
        self._scene, self._live, self._collection, self._ob, self._name = scene, live, collection, ob, ob.name
        self._bones: tuple[str, ...] = tuple(pb.name for pb in ob.pose.bones)
        self.renew()

    def renew(self) -> None:
        """Take what is there now as the beginning."""
        self._before = self._look() | self._animation()

    def changed(self, animation: bool = True) -> str:
        """What was changed or deleted since, in words; empty if nothing was. ``animation``: look at its action and NLA too."""
        things = (
            ("the scene", self._scene),
            (self._name, self._ob),
            ("the collection of the targets", self._collection),
        )
        for name, thing in things:
            try:
                _ = thing.name
            except ReferenceError:
                return f"{name} was deleted"
        if self._ob.pose is None or self._ob.mode == "EDIT":
            return f"{self._name} was put into Edit Mode"
        names = {pb.name for pb in self._ob.pose.bones}
        gone = [name for name in self._bones if name not in names]
        if gone:
            return f"the bone {gone[0]} was deleted or renamed"
        now = self._look() | (self._animation() if animation else {})
        return next((what for what, value in self._before.items() if what in now and now[what] != value), "")

    def _look(self) -> dict[str, Any]:
        """What happened, in words, if the value is another one than before -> the value."""
        ob, name, settings = self._ob, self._name, settings_of(self._collection)
        found, layer = signature(ob), bpy.context.view_layer
        out: dict[str, Any] = {
            f"{name} was removed from the scene": is_in(ob, self._scene.objects),
            f"{name} was hidden or excluded from the view layer": is_in(ob, layer.objects) and ob.visible_get(),
            f"{name} was put into Rest Position": ob.data.pose_position,
            "bones were added": found.names,
            f"the rest pose of {name} was changed": (found.shape, found.parents),
        }
        for bone, mode in zip(found.names, found.modes, strict=True):
            out[f"the rotation mode of {bone} was changed"] = mode
        out["constraints or drivers of bones were changed"] = found.others
        for prop in settings.bl_rna.properties:
            if prop.identifier not in _LOOSE:
                out[f"{prop.name} (Live IK) was changed"] = getattr(settings, prop.identifier)
        out["targets were changed or deleted"] = [
            (key, *_settings(target))
            for key, target in target_objects(self._collection).items()
            if target.animation_data is None
        ]
        out["Live IK was ended or started again"] = self._live.collection in characters
        return out

    def _animation(self) -> dict[str, Any]:
        """The same for what animates the character."""
        data = self._ob.animation_data
        assigned, tracks = _assigned(data), _nla(data)
        return {
            f"another action was assigned to {self._name}": assigned,
            f"the NLA of {self._name} was changed": tracks,
        }


def _settings(target: Any) -> tuple[Any, ...]:
    own = target.neural_ik_target
    return own.use, own.weight, own.turn_weight, own.pin


def _assigned(data: Any) -> tuple[int, int]:
    """The assigned action and its slot, as numbers that are theirs alone."""
    if data is None or data.action is None:
        return 0, 0
    return data.action.session_uid, actions.handle_of(data.action_slot if actions.SLOTTED else None)


def _nla(data: Any) -> Any:
    """What the tracks play and how."""
    if data is None:
        return None
    tracks = [(track.name, track.mute, track.is_solo, len(track.strips)) for track in data.nla_tracks]
    return data.use_nla, data.use_tweak_mode, tracks


_LOOSE = ("rna_type", "name", "armature", "bake_into", "bake_step", "hold_feet", "mode_before", "touch")
