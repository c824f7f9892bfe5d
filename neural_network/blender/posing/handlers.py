# SPDX-License-Identifier: GPL-3.0-or-later
"""What Blender calls: updates, frame changes, undo, loading and rendering."""

from __future__ import annotations

from typing import Any

import bpy
from bpy.app.handlers import persistent

from ...core.messages import show
from ..host import evaluating, runtime
from ..host.control_rigs import ControlRig
from . import changes, live_ik, overlay, pose_writing, scene_targets, solving
from .state import FRAME, characters, collections, is_in, is_paused, local, settings_of, unsolvable

RENDER_NOTE = "Renders show the action without Live IK"
_undoing = False


def _is_off(depsgraph: Any) -> bool:
    paused = _undoing or is_paused() or evaluating.under_way()
    return not (characters or unsolvable) or paused or (depsgraph is not None and depsgraph.mode != "VIEWPORT")


def _after_update(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    if _is_off(depsgraph):
        return
    if any(_was_changed(depsgraph, settings_of(c).armature) for c in collections() if c.name in unsolvable):
        live_ik.sync(solved=False)
    for live in list(characters.values()):
        collection = local(bpy.data.collections, live.collection)
        if collection is None:
            live_ik.sync()
            continue
        ob = settings_of(collection).armature
        changed = ob is None or bool(live.suspended) or not is_in(ob, scene.objects) or _was_changed(depsgraph, ob)
        force = changed and changes.take_in(live, collection, ob, scene)
        if characters.get(live.collection) is live:
            if solving.update(live, scene, depsgraph, force=force):
                solving.agree(live, scene)
            _compare_later()


def _was_changed(depsgraph: Any, ob: Any) -> bool:
    """Whether this update is about the character itself, not only about its targets."""
    if depsgraph is None or ob is None:
        return depsgraph is None
    data = ob.data
    return any(update.id.original in (ob, data) for update in depsgraph.updates)


def _compare_later() -> None:
    if not bpy.app.background and not bpy.app.timers.is_registered(_compare):
        bpy.app.timers.register(_compare, first_interval=0.0)


def _compare() -> None:
    """Color the targets by what Blender shows after an update."""
    if _is_off(None):
        return
    for live in characters.values():
        collection = local(bpy.data.collections, live.collection)
        ob = settings_of(collection).armature if collection is not None else None
        if ob is not None and ob.pose is not None and not live.suspended and changes.names_fit(live, ob):
            solving.compare_with_shown(live, ob)


def _before_frame(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    if _is_off(depsgraph):
        return
    for live in characters.values():
        collection = local(bpy.data.collections, live.collection)
        ob = settings_of(collection).armature if collection is not None else None
        if ob is None or not is_in(ob, scene.objects) or ob.pose is None:
            continue
        if solving.in_scene(collection, scene):
            live.before_frame = runtime.snapshot(ob)
            if isinstance(live.rig, ControlRig):  # controls without keys must be as they were without Live IK
                pose_writing.restore(ob, collection)


def _after_frame(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    if _is_off(depsgraph):
        return
    for live in list(characters.values()):
        collection = local(bpy.data.collections, live.collection)
        ob = settings_of(collection).armature if collection is not None else None
        if ob is None or not is_in(ob, scene.objects) or ob.mode == "EDIT":
            continue
        if not changes.names_fit(live, ob):
            continue
        if not solving.in_scene(collection, scene):
            live.dirty = True  # the bones hold another scene's frame now
            continue
        try:
            placed = solving.follow_animation(live, collection, ob)
        except ValueError as error:
            live.problem = str(error)
            continue
        live.pending = solving.update(live, scene, depsgraph, force=True, placed=placed, goes_on=False)
        solving.agree(live, scene, goes_on=False)


def _before_undo(*_: object) -> None:
    global _undoing
    _undoing = True


def _after_undo(*_: object) -> None:
    global _undoing
    _undoing = False
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
    show(f"Neural IK: {RENDER_NOTE}. Apply with auto-keying, Key or Bake first")
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
    for timer in (_catch_up, _compare, _show_render_note):
        if bpy.app.timers.is_registered(timer):
            bpy.app.timers.unregister(timer)
    for name, handler in _HANDLERS:
        found = getattr(bpy.app.handlers, name)
        if handler in found:
            found.remove(handler)
