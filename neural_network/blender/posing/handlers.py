# SPDX-License-Identifier: GPL-3.0-or-later
"""What Blender calls: updates, frame changes, undo, loading and rendering."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import bpy
from bpy.app.handlers import persistent

from ..host import runtime
from ..host.control_rigs import ControlRig
from . import live_ik, overlay, pose_writing, scene_targets, solving
from .state import BONES, FRAME, LiveCharacter, characters, collections, settings_of

RENDER_NOTE = "Renders show the action without Live IK"
_paused = False


def _is_viewport(depsgraph: Any) -> bool:
    return depsgraph is None or depsgraph.mode == "VIEWPORT"


def _after_update(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    if not characters or _paused or not _is_viewport(depsgraph):
        return
    for live in list(characters.values()):
        if live.collection not in bpy.data.collections:
            live_ik.sync()
        elif depsgraph is not None and depsgraph.id_type_updated("ARMATURE"):
            _update_bone_names(live)
        solving.update(live, scene, depsgraph)


def _update_bone_names(live: LiveCharacter) -> None:
    """Bones may have been renamed, added or deleted."""
    collection: Any = bpy.data.collections.get(live.collection)
    ob = settings_of(collection).armature if collection is not None else None
    if ob is None or ob.mode == "EDIT" or ob.pose is None:
        return
    names = tuple(pb.name for pb in ob.pose.bones)
    if names == live.rig.bones:
        return
    if len(names) == len(live.rig.bones):
        live.rig = replace(live.rig, bones=names)
        collection[BONES] = "\n".join(names)
    else:
        del characters[live.collection]
        live_ik.sync()


def _before_frame(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    if not characters or _paused or not _is_viewport(depsgraph):
        return
    for live in characters.values():
        collection = bpy.data.collections.get(live.collection)
        ob = settings_of(collection).armature if collection is not None else None
        if ob is None or ob.name not in scene.objects or ob.pose is None:
            continue
        if solving.in_scene(collection, scene):
            live.before_frame = runtime.snapshot(ob)
            if isinstance(live.rig, ControlRig):  # controls without keys must be as they were without Live IK
                pose_writing.restore(ob, collection)


def _after_frame(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    if not characters or _paused or not _is_viewport(depsgraph):
        return
    for live in list(characters.values()):
        collection = bpy.data.collections.get(live.collection)
        ob = settings_of(collection).armature if collection is not None else None
        if ob is None or ob.name not in scene.objects or ob.mode == "EDIT":
            continue
        if len(runtime.snapshot(ob)["scale"]) != len(live.base["scale"]):
            continue
        if not solving.in_scene(collection, scene):
            live.dirty = True  # the bones hold another scene's frame now
            continue
        placed = solving.follow_animation(live, collection, ob)
        solving.update(live, scene, depsgraph, force=True, placed=placed)


def _before_undo(*_: object) -> None:
    global _paused
    _paused = True


def _after_undo(*_: object) -> None:
    global _paused
    _paused = False
    live_ik.sync(forget=True, solved=False)
    if _is_behind() and not bpy.app.background:
        bpy.app.timers.register(_catch_up, first_interval=0.0)


def _is_behind() -> bool:
    """Whether the bones hold another frame's pose: Blender undoes a frame change without evaluating the frame."""
    scene = bpy.context.scene
    every: Any = collections()
    return any(FRAME in c and c[FRAME] != scene.frame_current_final for c in every)


def _catch_up() -> None:
    scene = bpy.context.scene
    if _is_behind():
        bpy.context.view_layer.update()  # the targets' world matrices are not evaluated yet
        scene.frame_set(scene.frame_current, subframe=scene.frame_subframe)


def _before_load(*_: object) -> None:
    characters.clear()


def _after_load(*_: object) -> None:
    characters.clear()
    if not collections():
        return
    bpy.context.view_layer.update()  # the targets' world matrices are not evaluated yet
    live_ik.sync(forget=True, solved=False)
    for live in list(characters.values()):
        scene: Any = bpy.context.scene
        solving.update(live, scene, bpy.context.evaluated_depsgraph_get())


def _before_render(*_: object) -> None:
    if not characters:
        return
    print(f"Neural IK: {RENDER_NOTE}. Apply with auto-keying, Key or Bake first")
    for live in characters.values():
        live.notes = [n for n in live.notes if n != RENDER_NOTE] + [RENDER_NOTE]
    if not bpy.app.background and not bpy.app.timers.is_registered(_show_render_note):
        bpy.app.timers.register(_show_render_note, first_interval=0.0)


def _show_render_note() -> None:
    """A popup in the first window: a handler has no window of its own."""
    manager = bpy.context.window_manager
    if not manager.windows:
        return

    def draw(menu: Any, _: Any) -> None:
        menu.layout.label(text=RENDER_NOTE)
        menu.layout.label(text="Key or bake the pose, then render again")

    with bpy.context.temp_override(window=manager.windows[0]):
        manager.popup_menu(draw, title="Live IK", icon="ERROR")


_HANDLERS = (
    ("depsgraph_update_post", persistent(_after_update)),
    ("frame_change_pre", persistent(_before_frame)),
    ("frame_change_post", persistent(_after_frame)),
    ("undo_pre", persistent(_before_undo)),
    ("redo_pre", persistent(_before_undo)),
    ("undo_post", persistent(_after_undo)),
    ("redo_post", persistent(_after_undo)),
    ("load_pre", persistent(_before_load)),
    ("load_post", persistent(_after_load)),
    ("render_init", persistent(_before_render)),
)


def register() -> None:
    """Add the handlers, and restore characters that are live in the open file."""
    for name, handler in _HANDLERS:
        getattr(bpy.app.handlers, name).append(handler)
    overlay.register()
    if hasattr(bpy.data, "collections"):  # not while Blender is still starting
        live_ik.sync(forget=True)


def unregister() -> None:
    """Cancel Live IK on every character and remove the handlers."""
    for collection in collections():
        ob = settings_of(collection).armature
        if ob is not None:
            pose_writing.restore(ob, collection)
        scene_targets.remove(collection)
    characters.clear()
    overlay.unregister()
    for timer in (_catch_up, _show_render_note):
        if bpy.app.timers.is_registered(timer):
            bpy.app.timers.unregister(timer)
    for name, handler in _HANDLERS:
        found = getattr(bpy.app.handlers, name)
        if handler in found:
            found.remove(handler)
