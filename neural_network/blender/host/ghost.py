# SPDX-License-Identifier: GPL-3.0-or-later
"""The ghost of a made motion: drawn as lines at the character or beside it, playing with the scene, until it is accepted or discarded.

There is one at a time, in memory alone: nothing of the file changes while it shows. Undo, another file, and a change of the
character's bones drop it. In background mode nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np
from bpy.app.handlers import persistent
from bpy.props import EnumProperty, FloatProperty, PointerProperty

from ...core.messages import counted
from . import accepting, bone_lines, jobs, motion_channels, rig, shown_motion
from .accepting import INTO, Motion
from .buttons import Button, no_character
from .jobs import Progress
from .panels import paragraph

TEXT = 13  # [points]
OUTSIDE = 0.35  # how bright the nearest pose is on frames that the motion does not have
WAY = 300  # lines of the way of the Hips, about
PATH = (0.95, 0.85, 0.35, 0.8)
"""Color of the way of the Hips over the generated frames."""


@dataclass(frozen=True, eq=False)
class Ghost:
    """A motion that waits for the user; plain values, so that no Blender data is kept."""

    title: str
    """What made it, as its button is called."""
    place: str
    """The panel that shows it, one of :mod:`.jobs`."""
    name: str
    """The armature object."""
    motion: Motion
    figures: tuple[str, ...]
    """Sentences about it, such as what was before and what is after."""
    heads: np.ndarray
    """(F, J, 3) [object space]."""
    sides: np.ndarray
    """(J) see :func:`.bone_lines.sides_of`."""
    key: tuple[Any, ...]
    """What it depends on of the armature."""

    def pose_at(self, frame: float) -> tuple[np.ndarray, bool]:
        """Heads (J, 3) at a frame of the scene, and whether the motion has that frame; else the nearest one's."""
        row = round(frame) - int(self.motion.frames[0])
        inside = 0 <= row < len(self.heads)
        return self.heads[int(np.clip(row, 0, len(self.heads) - 1))], inside


_shown: list[Ghost] = []
_handles: list[Any] = []
_keymaps: list[tuple[Any, Any]] = []


def current(place: str = "") -> Ghost | None:
    """The ghost that shows, in that panel if one is named; None where there is none, or its character has changed."""
    if _shown and object_of(_shown[0]) is None:
        _shown.clear()
    return _shown[0] if _shown and place in ("", _shown[0].place) else None


def object_of(ghost: Ghost) -> Any:
    """The armature object of a ghost; None where it is gone, or has other bones by now."""
    ob: Any = bpy.data.objects.get((ghost.name, None))
    fits = ob is not None and ob.type == "ARMATURE" and ob.mode != "EDIT"
    return ob if fits and motion_channels.key_of(ob) == ghost.key else None


def show(title: str, place: str, ob: Any, motion: Motion, figures: tuple[str, ...]) -> Ghost:
    """Show a motion as the ghost of ``ob``, in place of one that shows."""
    skeleton = motion.rig.skeleton
    sides = bone_lines.sides_of(skeleton.rest_core[:, 0, 3])
    ghost = Ghost(title, place, ob.name, motion, figures, motion.heads, sides, motion_channels.key_of(ob))
    _shown[:] = [ghost]
    redraw()
    return ghost


def drop() -> None:
    """Forget the ghost; nothing else was changed by it."""
    if _shown:
        _shown.clear()
        redraw()


def redraw() -> None:
    """Draw the 3D Viewports and their sidebars again."""
    for window in bpy.context.window_manager.windows:
        for area in window.screen.areas:
            if area.type == "VIEW_3D":
                area.tag_redraw()


# ---- drawing


def settings() -> Any:
    """How ghosts show and are accepted: settings of the session, not of the file."""
    manager: Any = bpy.context.window_manager
    return manager.neural_ik_ghost


def lines(ghost: Ghost, ob: Any, frame: float) -> tuple[np.ndarray, np.ndarray]:
    """Ends of lines (2 N, 3) in world space and their colors (2 N, 4): the pose at a frame, and the way of the Hips."""
    matrix = np.array(ob.matrix_world)
    matrix[:3, 3] += [settings().aside, 0.0, 0.0]
    heads, inside = ghost.pose_at(frame)
    skeleton = ghost.motion.rig.skeleton
    ends, colors = bone_lines.lines(heads, skeleton.parents, ghost.sides, matrix, 1.0 if inside else OUTSIDE)
    begin, end = _way(ghost.motion.generated)
    way = np.stack([ghost.heads[begin, 0], ghost.heads[end, 0]], axis=1).reshape(-1, 3)
    way = way @ matrix[:3, :3].T + matrix[:3, 3]
    return np.concatenate([ends, way]), np.concatenate([colors, np.tile(PATH, (len(way), 1))])


def _way(generated: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and last rows (N) of the lines of a way over ``generated`` (F) rows: few enough to be drawn at once."""
    step = max(1, len(generated) // WAY)
    begin = np.arange(0, max(len(generated) - step, 0), step)
    total = np.concatenate([[0], np.cumsum(generated)])
    whole = total[begin + step + 1] - total[begin] == step + 1
    return begin[whole], begin[whole] + step


def words(ghost: Ghost) -> tuple[str, ...]:
    """The lines of text in the corner of the view."""
    frames = ghost.motion.frames[ghost.motion.generated]
    return (f"{ghost.title} of {ghost.name}, frames {frames[0]} to {frames[-1]} (Esc discards)", *ghost.figures)


def _draw() -> None:
    ghost, context = current(), bpy.context
    space: Any = context.space_data
    if ghost is None or not space.overlay.show_overlays:
        return
    scene: Any = context.scene
    bone_lines.draw(*lines(ghost, object_of(ghost), scene.frame_current_final))


def _draw_words() -> None:
    ghost, context = current(), bpy.context
    space: Any = context.space_data
    if ghost is None or not space.overlay.show_overlays:
        return
    import blf

    scale = context.preferences.system.ui_scale
    blf.size(0, TEXT * scale)
    blf.color(0, *PATH[:3], 1.0)
    for row, line in enumerate(reversed(words(ghost))):
        blf.position(0, 2.0 * TEXT * scale, (2.0 + 1.4 * row) * TEXT * scale, 0)
        blf.draw(0, line)


# ---- the panel's piece


def draw_panel(layout: Any, context: bpy.types.Context, place: str) -> bool:
    """Draw the ghost that belongs to the panel ``place``: its figures, Accept and Discard; True where there is one."""
    ghost = current(place)
    if ghost is None:
        return False
    box = layout.box().column(align=True)
    frames = ghost.motion.frames[ghost.motion.generated]
    box.label(text=f"{ghost.title}: frames {frames[0]} to {frames[-1]}", icon="GHOST_ENABLED")
    for line in ghost.figures:
        paragraph(box, line, context, "BLANK1")
    box.prop(settings(), "aside")
    row = box.row(align=True)
    row.prop(settings(), "into", text="")
    row.operator("neural_ik.ghost_accept", icon="CHECKMARK")
    row.operator("neural_ik.ghost_discard", text="", icon="X")
    return True


@dataclass(frozen=True)
class Made:
    """What a button made for an armature object."""

    name: str
    motion: Motion | None
    """None where there is nothing to change."""
    figures: tuple[str, ...]
    """Sentences about it."""


class Maker(jobs.Pumped, Button):
    """Mixin for a button about the active character, whose ``work`` returns :class:`Made` and which shows that as the ghost."""

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """Why it cannot be pressed, in words; empty if it can."""
        return no_character(context) or shown_motion.refusal(rig.find(context))

    def finish(self, context: bpy.types.Context, result: Made) -> str:
        """Show the ghost, unless there is nothing to change."""
        if result.motion is None:
            return ". ".join(result.figures)
        ob = bpy.data.objects.get((result.name, None))
        if ob is None:
            raise ValueError(f"{result.name} was deleted meanwhile")
        reason = accepting.refusal(ob, result.motion, settings().into, self.bl_label)
        figures = (*result.figures, f"It cannot be accepted yet: {reason}") if reason else result.figures
        shown = show(self.bl_label, self.panel, ob, result.motion, figures)
        frames = shown.motion.frames[shown.motion.generated]
        how = f"{counted(len(frames), 'frame')}, {frames[0]} to {frames[-1]}, as a ghost: Accept or Discard"
        return ". ".join([how, *figures])


class NEURAL_IK_GhostSettings(bpy.types.PropertyGroup):
    """How the ghost shows and what it becomes."""

    aside: FloatProperty(
        name="Aside",
        description="How far beside the character the ghost is drawn, along X",
        default=0.0,
        soft_min=-3.0,
        soft_max=3.0,
        subtype="DISTANCE",
        update=lambda self, context: redraw(),
    )
    into: EnumProperty(name="Accept As", description="What the ghost becomes", items=INTO)


class NEURAL_IK_OT_ghost_accept(jobs.Pumped, Button, bpy.types.Operator):
    """Make the ghost real: its generated frames are keyed, everything else stays as it is"""

    bl_idname = "neural_ik.ghost_accept"
    bl_label = "Accept"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """Why it cannot be pressed, in words; empty if it can."""
        return "" if current() is not None else "no ghost shows: press Fill, Continue, Fix Feet or Make Physical first"

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, str]:
        """Write the keys."""
        ghost = current()
        if ghost is None:
            raise ValueError("the ghost's character has changed: make the motion again")
        self.panel = ghost.place
        return accepting.accept(context, object_of(ghost), ghost.motion, settings().into, ghost.title)

    def finish(self, context: bpy.types.Context, result: str) -> str:
        """The ghost has become keys."""
        drop()
        return result


class NEURAL_IK_OT_ghost_discard(Button, bpy.types.Operator):
    """Forget the ghost"""

    bl_idname = "neural_ik.ghost_discard"
    bl_label = "Discard"
    bl_options = {"INTERNAL"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """Esc passes on while there is no ghost, and while the scene plays."""
        if current() is None:
            return "no ghost shows"
        return "the scene plays" if context.screen is not None and context.screen.is_animation_playing else ""

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Forget it."""
        drop()
        return {"FINISHED"}


# ---- what drops it


def _dropped(*_: object) -> None:
    drop()


_HANDLERS = (  # persistent: kept when another file is loaded
    ("load_pre", persistent(_dropped)),
    ("undo_post", persistent(_dropped)),
    ("redo_post", persistent(_dropped)),
)
_classes = (NEURAL_IK_GhostSettings, NEURAL_IK_OT_ghost_accept, NEURAL_IK_OT_ghost_discard)


def register() -> None:
    """Register the buttons, Esc in the 3D Viewport, the handlers and, unless in background mode, the drawing."""
    for cls in _classes:
        bpy.utils.register_class(cls)
    types: Any = bpy.types
    types.WindowManager.neural_ik_ghost = PointerProperty(type=NEURAL_IK_GhostSettings)
    for name, handler in _HANDLERS:
        getattr(bpy.app.handlers, name).append(handler)
    keys = bpy.context.window_manager.keyconfigs.addon
    if keys is not None:  # None in background mode
        keymap = keys.keymaps.new(name="3D View", space_type="VIEW_3D")
        _keymaps.append((keymap, keymap.keymap_items.new("neural_ik.ghost_discard", "ESC", "PRESS")))
    if not bpy.app.background:
        for draw, when in ((_draw, "POST_VIEW"), (_draw_words, "POST_PIXEL")):
            _handles.append(bpy.types.SpaceView3D.draw_handler_add(draw, (), "WINDOW", when))


def unregister() -> None:
    """Forget the ghost, and leave nothing behind."""
    _shown.clear()
    for handle in _handles:
        bpy.types.SpaceView3D.draw_handler_remove(handle, "WINDOW")
    _handles.clear()
    for keymap, item in _keymaps:
        keymap.keymap_items.remove(item)
    _keymaps.clear()
    for name, handler in _HANDLERS:
        found = getattr(bpy.app.handlers, name)
        if handler in found:
            found.remove(handler)
    types: Any = bpy.types
    del types.WindowManager.neural_ik_ghost
    for cls in reversed(_classes):
        bpy.utils.unregister_class(cls)
