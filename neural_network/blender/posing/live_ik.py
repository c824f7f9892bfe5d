# SPDX-License-Identifier: GPL-3.0-or-later
"""Live IK: drag a target in the scene, and the body is solved in the same update.

This module starts and ends it. state.py holds what is known of each character, scene_targets.py the targets, solving.py the
solve, pose_writing.py the bones, and handlers.py what Blender calls.
"""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np

from ...ik.drag_session import DragSession
from ...ik.network import Network
from ..host import control_rigs, rig_checks, runtime
from ..host.characters import weights_for
from ..host.control_rigs import ControlRig
from ..host.rig import Rig
from . import pose_writing, scene_targets, takeover
from .signature import signature
from .state import (
    ANSWER,
    BASE,
    BEFORE,
    BONES,
    FRAME,
    SWITCHES,
    LiveCharacter,
    active_collection,
    build,
    characters,
    collection_of,
    collections,
    explain,
    is_in,
    replaced,
    settings_of,
    store_channels,
    stored_channels_for,
    target_objects,
    unsolvable,
)

__all__ = [
    "LiveCharacter",
    "active_collection",
    "characters",
    "collection_of",
    "collections",
    "end",
    "explain",
    "live_of",
    "rebuild",
    "start",
    "sync",
    "target_objects",
]


def start(
    context: bpy.types.Context, ob: bpy.types.Object, all_on: bool = False, mode: str = "OFFSET"
) -> bpy.types.Collection:
    """Add targets where the body of ``ob`` is; from then on moving one moves the body. Returns their collection.

    Args:
        context: Blender's context.
        ob: the armature object.
        all_on: switch every target on instead of only those of the feet.
        mode: over an action, OFFSET adds to the animation and INSTEAD replaces it.

    Raises ValueError if this character cannot be solved or is live already, with what to do about it.
    """
    net = weights_for(ob)
    if collection_of(ob) is not None:
        raise ValueError(f"{ob.name} is live already: Apply or Cancel first")
    if not is_in(ob, context.view_layer.objects):
        raise ValueError(f"{ob.name} is not in this view layer")
    if getattr(ob.data, "pose_position", "POSE") == "REST":
        raise ValueError(f"{ob.name} is shown in Rest Position: switch to Pose Position (Armature properties)")
    rig = rig_checks.usable(ob, net, controls=True)
    remove_orphaned()
    context.view_layer.update()
    mode_before, wanted = ob.mode, scene_targets.roles_of_selected(ob, rig)
    if context.mode != "OBJECT" and _can_change_mode():
        bpy.ops.object.mode_set(mode="OBJECT")
    channels = runtime.snapshot(ob)
    taken = takeover.begin(ob, rig, net) if isinstance(rig, ControlRig) else None
    collection: Any = bpy.data.collections.new(f"Neural IK {ob.name}")
    try:
        context.scene.collection.children.link(collection)
        settings = collection.neural_ik_live
        settings.armature, settings.mode_before, settings.mode = ob, mode_before, mode
        settings.ground = float(ob.matrix_world.translation.z)
        collection[BONES] = "\n".join(rig.bones)
        collection[FRAME] = context.scene.frame_current_final
        collection[SWITCHES] = taken.switches if taken is not None else {}
        store_channels(collection, BASE, runtime.snapshot(ob))
        store_channels(collection, BEFORE, channels)
        live = _from_file(collection, ob, rig, net)
        scene_targets.add_targets(context, collection, live, ob, all_on)
        settings.live = True
        context.view_layer.update()
        scene_targets.read_settings(live, collection)
        scene_targets.accept_current(live, ob)
    except BaseException:  # nothing half made stays
        if taken is not None:
            control_rigs.switch_back(ob, taken.switches)
        runtime.restore(ob, channels)
        scene_targets.remove(collection)
        if mode_before == "POSE" and _can_change_mode():
            bpy.ops.object.mode_set(mode="POSE")
        raise
    live.notes = [live.solver.warning] if live.solver.warning else []
    if taken is not None:
        live.notes += [taken.note] if taken.note else []
        live.notes.append("The limbs use FK while Live IK is on and after Apply (IK_FK is 1)")
    characters[collection.name] = live
    scene_targets.select_first(context, collection, wanted)
    return collection


def end(context: bpy.types.Context, collection: bpy.types.Collection, keep: bool) -> None:
    """Remove the targets; ``keep`` leaves the pose as it is shown, otherwise every bone is restored."""
    settings = settings_of(collection)
    ob, mode = settings.armature, settings.mode_before
    if ob is not None and not keep:
        pose_writing.restore(ob, collection)
    characters.pop(collection.name, None)
    replaced.discard(collection.name)
    scene_targets.remove(collection)
    if ob is None or not is_in(ob, context.view_layer.objects):
        return
    if context.mode == "OBJECT":
        for other in list(context.selected_objects):
            other.select_set(False)
        ob.select_set(True)
        context.view_layer.objects.active = ob
        if mode == "POSE" and _can_change_mode():
            bpy.ops.object.mode_set(mode="POSE")
    context.view_layer.update()


def live_of(collection: bpy.types.Collection) -> LiveCharacter | None:
    """The character of a collection; None if it cannot be rebuilt (no weights, deleted bones)."""
    if collection.name not in characters:
        sync()
        live = characters.get(collection.name)
        if live is not None and live.restored:
            scene_targets.accept_current(live, settings_of(collection).armature)
    return characters.get(collection.name)


def sync(forget: bool = False, solved: bool = True) -> None:
    """Make ``characters`` match the file.

    Args:
        forget: rebuild all of them: after undo or loading, nothing in memory is valid.
        solved: the bones hold the solved pose; False if they hold the action's, as after loading a file.
    """
    if forget:
        characters.clear()
        replaced.clear()
    found = collections()
    for name in set(characters) - {c.name for c in found}:
        del characters[name]
    for name in set(unsolvable) - replaced:
        del unsolvable[name]
    for collection in found:
        ob = settings_of(collection).armature
        if ob is None:
            unsolvable[collection.name] = "The character was deleted"
        if collection.name in characters or collection.name in replaced or ob is None:
            continue
        try:
            net = weights_for(ob, show=False)
            live = _from_file(collection, ob, rig_checks.fit_live(ob, net), net)
        except (ValueError, OSError) as error:
            unsolvable[collection.name] = str(error)  # Cancel still works
            continue
        scene_targets.read_settings(live, collection)
        live.restored = solved
        characters[collection.name] = live


def rebuild(collection: Any) -> None:
    """Compute a character again, because a setting that it depends on changed, and solve at Blender's next update."""
    live = characters.pop(collection.name, None)
    if live is None:
        return
    if ANSWER in collection:
        del collection[ANSWER]
    sync(solved=False)
    rebuilt = characters.get(collection.name)
    if rebuilt is not None and isinstance(rebuilt.session, DragSession) and isinstance(live.session, DragSession):
        rebuilt.session.remember(live.session)
    ob = settings_of(collection).armature
    if ob is not None:
        ob.update_tag(refresh={"OBJECT"})


def remove_orphaned() -> None:
    """Remove the targets of characters that were deleted."""
    scenes: Any = bpy.data.scenes
    for collection in collections():
        ob = settings_of(collection).armature
        if ob is None or not any(is_in(ob, scene.objects) for scene in scenes):
            characters.pop(collection.name, None)
            scene_targets.remove(collection)


def _from_file(collection: bpy.types.Collection, ob: bpy.types.Object, rig: Rig, net: Network) -> LiveCharacter:
    """The character computed from what its collection stores."""
    base, before = (stored_channels_for(rig, collection, key) for key in (BASE, BEFORE))
    settings = settings_of(collection)
    natural = settings.posing == "NATURAL"
    live = build(collection.name, ob, rig, net, base, before, settings.limits_from == "OWN", natural)
    stored: Any = collection
    if isinstance(live.session, DragSession) and ANSWER in stored:
        live.session.restore(np.array(stored[ANSWER], np.float64))
    live.signature = signature(ob)
    return live


def _can_change_mode() -> bool:
    operator: Any = bpy.ops.object.mode_set
    return bool(operator.poll())
