# SPDX-License-Identifier: GPL-3.0-or-later
"""The buttons of the panel Roles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import bpy
import numpy as np
from bpy.props import EnumProperty, StringProperty

from ...rigs.roles import ROLE_NAMES
from ..host import jobs, rig
from ..host.buttons import no_character
from . import editing, overlay

REACH = 24  # [pixels] how far from a bone a click may be


class _Edit(bpy.types.Operator if TYPE_CHECKING else object):
    """An operator that edits the character's roles: what cannot be is reported in words and changes nothing."""

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """There is a character, and nothing else is at work."""
        reason = f"{jobs.busy()} is running: wait, or press Esc" if jobs.busy() else no_character(context)
        if reason:
            cls.poll_message_set(reason[0].upper() + reason[1:] + ".")
        return not reason

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Edit, and say what came of it."""
        try:
            ob = editing.require_roles(context)
            kind, words = self.edit(context, ob)
        except (ValueError, OSError) as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        self.report({kind}, words)
        return {"FINISHED"}

    def edit(self, context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Any, str]:
        """The edit itself; returns the kind of report and its sentence. Raises ValueError or OSError in words."""
        raise NotImplementedError


class NEURAL_IK_OT_roles_find(_Edit, bpy.types.Operator):
    """Find out which bone plays which role, by structure and names; what was chosen by hand is found anew too"""

    bl_idname = "neural_ik.roles_find"
    bl_label = "Find Roles"
    bl_options = {"REGISTER", "UNDO"}

    def edit(self, context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Any, str]:
        """Find."""
        found = editing.find(ob)
        notes = "".join(f". {note[0].upper()}{note[1:]}" for note in found.notes)
        if not found.roles:
            words = "no person's roles were found: choose bones here if it is one, else see the panel Effectors"
            return "WARNING", f"{ob.name}: {words}{notes}"
        return "INFO", f"{len(found.roles)} of {len(ROLE_NAMES)} roles of {ob.name} are played{notes}"


class NEURAL_IK_OT_roles_clear(_Edit, bpy.types.Operator):
    """Forget the roles of this character: they are then found anew whenever they are needed"""

    bl_idname = "neural_ik.roles_clear"
    bl_label = "Clear Roles"
    bl_options = {"REGISTER", "UNDO"}

    def edit(self, context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Any, str]:
        """Forget."""
        editing.clear(ob)
        return "INFO", f"The roles of {ob.name} are found by themselves again"


class _OneRole(_Edit if TYPE_CHECKING else object):
    """An operator on one role."""

    role: StringProperty(name="Role", description="One of the 23 roles", options={"SKIP_SAVE"})


class NEURAL_IK_OT_roles_from_active(_OneRole, _Edit, bpy.types.Operator):
    """Give this role to the active bone"""

    bl_idname = "neural_ik.roles_from_active"
    bl_label = "Use the Active Bone"
    bl_options = {"REGISTER", "UNDO"}

    def edit(self, context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Any, str]:
        """Take it."""
        bone = ob.data.bones.active
        if bone is None:
            raise ValueError(f"no bone of {ob.name} is active: click one in Pose Mode first")
        editing.edit(ob, self.role, bone.name)
        return "INFO", _said(ob, self.role)


class NEURAL_IK_OT_roles_pick(_OneRole, _Edit, bpy.types.Operator):
    """Click the bone that plays this role, in any 3D view; Esc or the right button ends it"""

    bl_idname = "neural_ik.roles_pick"
    bl_label = "Pick a Bone"
    bl_options = {"REGISTER", "UNDO"}

    bone: StringProperty(name="Bone", description="The bone that is taken, without a click", options={"SKIP_SAVE"})

    def edit(self, context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Any, str]:
        """Take the bone."""
        if not self.bone:
            raise ValueError("no bone was given, and without a window none can be clicked")
        editing.edit(ob, self.role, self.bone)
        return "INFO", _said(ob, self.role)

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> Any:
        """Wait for a click."""
        if bpy.app.background or context.window is None or self.bone:
            return self.execute(context)
        try:
            ob = editing.require_roles(context)
        except ValueError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        self.meant = ob.name
        context.window.cursor_modal_set("EYEDROPPER")
        context.window_manager.modal_handler_add(self)
        self._say(context, "")
        return {"RUNNING_MODAL"}

    def modal(self, context: bpy.types.Context, event: bpy.types.Event) -> Any:
        """One event: the bone under the pointer is named, a click takes it, the view may be turned meanwhile."""
        if event.type in ("ESC", "RIGHTMOUSE") and event.value == "PRESS":
            self._end(context)
            return {"CANCELLED"}
        try:
            ob = editing.require_roles(context)
        except ValueError:
            ob = None
        if ob is None or ob.name != self.meant:  # undone, deleted, or another one is active
            self._end(context)
            return {"CANCELLED"}
        if event.type == "MOUSEMOVE":
            self._say(context, bone_under(context, ob, event.mouse_x, event.mouse_y))
        if event.type == "LEFTMOUSE" and event.value == "PRESS":
            self.bone = bone_under(context, ob, event.mouse_x, event.mouse_y)
            if not self.bone:
                self.report({"WARNING"}, f"no bone of {ob.name} is there; click one, or press Esc")
                return {"RUNNING_MODAL"}
            self._end(context)
            return self.execute(context)
        turning = event.type in ("MIDDLEMOUSE", "WHEELUPMOUSE", "WHEELDOWNMOUSE") or event.type.startswith(
            ("NUMPAD", "TRACKPAD", "NDOF")
        )
        return {"PASS_THROUGH"} if turning else {"RUNNING_MODAL"}

    def cancel(self, context: bpy.types.Context) -> None:
        """Blender drops the operator."""
        self._end(context)

    def _say(self, context: bpy.types.Context, bone: str) -> None:
        where = f"{bone}: click to make it the {self.role}" if bone else f"Click the bone that is the {self.role}"
        context.workspace.status_text_set(f"{where}   Esc: leave it")
        overlay.point(bone)

    def _end(self, context: bpy.types.Context) -> None:
        context.window.cursor_modal_restore()
        context.workspace.status_text_set(None)
        overlay.point("")


def _said(ob: bpy.types.Object, role: str) -> str:
    given = editing.table(ob)
    wrong = editing.problems(ob).get(role)
    return f"{role} is {given[role]}" + (f"; but {wrong}" if wrong else "")


def bone_under(context: bpy.types.Context, ob: bpy.types.Object, x: int, y: int) -> str:
    """The bone of ``ob`` drawn nearest to a place (x, y) of the window [pixels], in whichever 3D view that is; else nothing."""
    for area in context.window.screen.areas:
        if area.type != "VIEW_3D":
            continue
        over = [
            r
            for r in area.regions
            if r.type != "WINDOW" and r.width > 1 and r.x <= x < r.x + r.width and r.y <= y < r.y + r.height
        ]
        views = [r for r in area.regions if r.type == "WINDOW"]
        quads: Any = area.spaces.active.region_quadviews
        seen = list(quads) or [area.spaces.active.region_3d]
        for region, view in zip(views, seen, strict=False):
            inside = region.x <= x < region.x + region.width and region.y <= y < region.y + region.height
            if inside and not over:
                return nearest_bone(ob, np.array(view.perspective_matrix, float), region, x - region.x, y - region.y)
    return ""


def nearest_bone(ob: bpy.types.Object, perspective: np.ndarray, region: Any, x: float, y: float) -> str:
    """The visible bone whose line from head to tail is drawn within REACH of (x, y) [pixels of the region]; else nothing.

    Of bones equally near, within a few pixels, the one in front. ``perspective`` (4, 4) is the view's.
    """
    bones = [pb for pb in ob.pose.bones if editing.is_visible(pb)]
    if not bones:
        return ""
    full = perspective @ np.array(ob.matrix_world, float)
    ends = np.array([[[*pb.head, 1.0], [*pb.tail, 1.0]] for pb in bones]) @ full.T  # (N, 2, 4)
    deep = ends[..., 3]
    flat = (ends[..., :2] / np.where(deep > 1e-6, deep, np.inf)[..., None] + 1) * 0.5 * [region.width, region.height]
    start, line = flat[:, 0], flat[:, 1] - flat[:, 0]
    point = np.array([x, y], float)
    share = np.sum((point - start) * line, axis=1) / np.maximum(np.sum(line * line, axis=1), 1e-9)
    share = np.clip(share, 0.05, 0.95)  # where one bone ends and the next begins, both are asked fairly
    away = np.linalg.norm(start + share[:, None] * line - point, axis=1)
    away = np.where((deep > 1e-6).all(axis=1), away, np.inf)
    if away.min() > REACH:
        return ""
    near = np.flatnonzero(away <= away.min() + 2)
    depth = deep[near].mean(axis=1)
    return bones[int(near[np.argmin(np.round(depth, 4))])].name


class NEURAL_IK_OT_roles_problem(_OneRole, bpy.types.Operator):
    """Something is wrong with this role"""

    bl_idname = "neural_ik.roles_problem"
    bl_label = "What Is Wrong"
    bl_options = {"INTERNAL"}

    @classmethod
    def description(cls, context: bpy.types.Context, properties: Any) -> str:
        """The tooltip: what is wrong."""
        try:
            return editing.problems(rig.find(context)).get(properties.role, "Nothing is wrong")
        except ValueError as error:
            return str(error)

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Say it."""
        self.report({"WARNING"}, f"{self.role}: {self.description(context, self)}")
        return {"FINISHED"}


class NEURAL_IK_OT_roles_mirror(_Edit, bpy.types.Operator):
    """Give the other side the bones that mirror this side's, in every role"""

    bl_idname = "neural_ik.roles_mirror"
    bl_label = "Mirror Roles"
    bl_options = {"REGISTER", "UNDO"}

    side: EnumProperty(
        name="From",
        items=[("Left", "Left to Right", "The left side stays"), ("Right", "Right to Left", "The right side stays")],
    )

    def edit(self, context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Any, str]:
        """Mirror."""
        lost = editing.mirror_side(ob, self.side)
        if lost:
            return "WARNING", f"Mirrored, but nothing mirrors the bones of {', '.join(lost)}"
        return "INFO", f"The {self.side.lower()} side was mirrored"


class _File(_Edit if TYPE_CHECKING else object):
    """An operator on a JSON file, which is asked for where it is not given."""

    suggested = ""  # name of the file that the file browser begins with

    filepath: StringProperty(name="File", subtype="FILE_PATH", options={"SKIP_SAVE"})
    filter_glob: StringProperty(default="*.json", options={"HIDDEN"})

    def path(self) -> Path:
        """The file that is meant."""
        if not self.filepath:
            raise ValueError("no file was given")
        return Path(bpy.path.abspath(self.filepath))

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> Any:
        """Ask for the file."""
        if self.filepath or bpy.app.background:
            return self.execute(context)
        self.filepath = self.suggested
        context.window_manager.fileselect_add(self)
        return {"RUNNING_MODAL"}


class NEURAL_IK_OT_roles_import(_File, _Edit, bpy.types.Operator):
    """Take the roles of a JSON file, as the terminal's --roles FILE does"""

    bl_idname = "neural_ik.roles_import"
    bl_label = "Import Roles"
    bl_options = {"REGISTER", "UNDO"}

    def edit(self, context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Any, str]:
        """Read."""
        roles = editing.load(ob, self.path())
        count = sum(bone is not None for bone in roles.bones.values())
        return "INFO", f"{count} roles of {ob.name} are as {self.path().name} says"


class NEURAL_IK_OT_roles_export(_File, _Edit, bpy.types.Operator):
    """Write the roles to a JSON file, for other characters with these bones and for the terminal's --roles FILE"""

    bl_idname = "neural_ik.roles_export"
    bl_label = "Export Roles"
    bl_options = {"REGISTER"}
    suggested = "roles.json"

    def edit(self, context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Any, str]:
        """Write."""
        path = self.path()
        path = path if path.suffix else path.with_suffix(".json")
        editing.save(ob, path)
        return "INFO", f"The roles of {ob.name} are in {path}"


class NEURAL_IK_OT_roles_save_preset(_Edit, bpy.types.Operator):
    """Keep these roles under a name, for other characters with these bones"""

    bl_idname = "neural_ik.roles_save_preset"
    bl_label = "Save Preset"
    bl_options = {"REGISTER"}

    preset: StringProperty(name="Name", description="A preset of this name is replaced")

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> Any:
        """Ask for the name."""
        if bpy.app.background:
            return self.execute(context)
        self.preset = self.preset or rig.find(context).name
        return context.window_manager.invoke_props_dialog(self)

    def edit(self, context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Any, str]:
        """Write."""
        path = editing.preset_path(self.preset)
        path.parent.mkdir(parents=True, exist_ok=True)
        editing.save(ob, path)
        return "INFO", f"Preset {path.stem}: {path}"


class NEURAL_IK_OT_roles_load_preset(_Edit, bpy.types.Operator):
    """Give this character the roles of a preset"""

    bl_idname = "neural_ik.roles_load_preset"
    bl_label = "Load Preset"
    bl_options = {"REGISTER", "UNDO"}

    preset: StringProperty(name="Name", options={"SKIP_SAVE"})

    def edit(self, context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Any, str]:
        """Read."""
        path = _known_preset(self.preset)
        editing.load(ob, path)
        return "INFO", f"The roles of {ob.name} are those of {path.stem}"


class NEURAL_IK_OT_roles_delete_preset(_Edit, bpy.types.Operator):
    """Delete a preset from the disk"""

    bl_idname = "neural_ik.roles_delete_preset"
    bl_label = "Delete Preset"
    bl_options = {"REGISTER"}

    preset: StringProperty(name="Name", options={"SKIP_SAVE"})

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> Any:
        """Ask first."""
        if bpy.app.background:
            return self.execute(context)
        return context.window_manager.invoke_confirm(self, event)

    def edit(self, context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Any, str]:
        """Delete."""
        path = _known_preset(self.preset)
        path.unlink(missing_ok=True)
        return "INFO", f"The preset {path.stem} is deleted"


def _known_preset(name: str) -> Path:
    path = editing.preset_path(name)
    if not path.exists():
        known = ", ".join(p.stem for p in editing.presets()) or "none yet"
        raise ValueError(f"no preset is called {name!r}; there are: {known}")
    return path


_classes = (
    NEURAL_IK_OT_roles_find,
    NEURAL_IK_OT_roles_clear,
    NEURAL_IK_OT_roles_from_active,
    NEURAL_IK_OT_roles_pick,
    NEURAL_IK_OT_roles_problem,
    NEURAL_IK_OT_roles_mirror,
    NEURAL_IK_OT_roles_import,
    NEURAL_IK_OT_roles_export,
    NEURAL_IK_OT_roles_save_preset,
    NEURAL_IK_OT_roles_load_preset,
    NEURAL_IK_OT_roles_delete_preset,
)


def register() -> None:
    """Register the buttons."""
    for cls in _classes:
        bpy.utils.register_class(cls)


def unregister() -> None:
    """Take them out."""
    for cls in reversed(_classes):
        bpy.utils.unregister_class(cls)
