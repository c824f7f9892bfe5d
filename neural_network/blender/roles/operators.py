# SPDX-License-Identifier: GPL-3.0-or-later
"""The operators of the Roles panel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import bpy
import numpy as np
from bpy.props import EnumProperty, StringProperty

from ...core.messages import counted
from ...rigs.roles import ROLE_NAMES
from ..host import rig
from ..host.buttons import Button, no_character
from . import editing, overlay

REACH = 24  # [pixels]: how far from a bone a click may be


class _Edit(Button):
    """An operator that edits the active character's roles; errors are reported and change nothing."""

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """There is no character."""
        return no_character(context)

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Edit the roles and report the result."""
        try:
            ob = editing.require_roles(context)
            kind, message = self.edit(context, ob)
        except (ValueError, OSError) as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        self.report({kind}, message)
        return {"FINISHED"}

    def edit(self, context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Any, str]:
        """Edit the roles; returns the type of report and its message. Raises ValueError or OSError."""
        raise NotImplementedError


class NEURAL_IK_OT_roles_find(_Edit, bpy.types.Operator):
    """Find the bone of each role by structure and names. Roles set by hand are replaced"""

    bl_idname = "neural_ik.roles_find"
    bl_label = "Find Roles"
    bl_options = {"REGISTER", "UNDO"}

    def edit(self, context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Any, str]:
        """Find the roles."""
        found = editing.find(ob)
        notes = "".join(f". {note[0].upper()}{note[1:]}" for note in found.notes)
        if not found.roles:
            message = "this does not look like a human: choose bones here if it is one, else use the Effectors panel"
            return "WARNING", f"{ob.name}: {message}{notes}"
        return "INFO", f"Found {len(found.roles)} of {len(ROLE_NAMES)} roles of {ob.name}{notes}"


class NEURAL_IK_OT_roles_clear(_Edit, bpy.types.Operator):
    """Clear the roles of this character, so that they are found automatically when needed"""

    bl_idname = "neural_ik.roles_clear"
    bl_label = "Clear Roles"
    bl_options = {"REGISTER", "UNDO"}

    def edit(self, context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Any, str]:
        """Clear the roles."""
        editing.clear(ob)
        return "INFO", f"The roles of {ob.name} are now found automatically"


class _OneRole(_Edit if TYPE_CHECKING else object):
    """An operator on one role."""

    role: StringProperty(name="Role", description="One of the 23 roles", options={"SKIP_SAVE"})


class NEURAL_IK_OT_roles_from_active(_OneRole, _Edit, bpy.types.Operator):
    """Assign this role to the active bone"""

    bl_idname = "neural_ik.roles_from_active"
    bl_label = "Use Active Bone"
    bl_options = {"REGISTER", "UNDO"}

    def edit(self, context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Any, str]:
        """Assign it."""
        bone = ob.data.bones.active
        if bone is None:
            raise ValueError(f"{ob.name} has no active bone: click one in Pose Mode first")
        editing.edit(ob, self.role, bone.name)
        return "INFO", _assigned(ob, self.role)


class NEURAL_IK_OT_roles_pick(_OneRole, _Edit, bpy.types.Operator):
    """Click a bone in a 3D Viewport to assign this role to it. Esc or right-click cancels"""

    bl_idname = "neural_ik.roles_pick"
    bl_label = "Pick Bone"
    bl_options = {"REGISTER", "UNDO"}

    bone: StringProperty(name="Bone", description="Assign the role to this bone without a click", options={"SKIP_SAVE"})

    def edit(self, context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Any, str]:
        """Assign the bone."""
        if not self.bone:
            raise ValueError("no bone was given; in background mode there is no window to click in")
        editing.edit(ob, self.role, self.bone)
        return "INFO", _assigned(ob, self.role)

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> Any:
        """Wait for a click."""
        if bpy.app.background or context.window is None or self.bone:
            return self.execute(context)
        try:
            ob = editing.require_roles(context)
        except ValueError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        self.character = ob.name
        context.window.cursor_modal_set("EYEDROPPER")
        context.window_manager.modal_handler_add(self)
        self._show(context, "")
        return {"RUNNING_MODAL"}

    def modal(self, context: bpy.types.Context, event: bpy.types.Event) -> Any:
        """Name the bone under the pointer, and take it on a click; the view can be navigated meanwhile."""
        if event.type in ("ESC", "RIGHTMOUSE") and event.value == "PRESS":
            self._end(context)
            return {"CANCELLED"}
        try:
            ob = editing.require_roles(context)
        except ValueError:
            ob = None
        if ob is None or ob.name != self.character:  # undone, deleted, or no longer active
            self._end(context)
            return {"CANCELLED"}
        if event.type == "MOUSEMOVE":
            self._show(context, bone_under(context, ob, event.mouse_x, event.mouse_y))
        if event.type == "LEFTMOUSE" and event.value == "PRESS":
            self.bone = bone_under(context, ob, event.mouse_x, event.mouse_y)
            if not self.bone:
                self.report({"WARNING"}, f"no bone of {ob.name} here: click one, or press Esc")
                return {"RUNNING_MODAL"}
            self._end(context)
            return self.execute(context)
        navigating = event.type in ("MIDDLEMOUSE", "WHEELUPMOUSE", "WHEELDOWNMOUSE") or event.type.startswith(
            ("NUMPAD", "TRACKPAD", "NDOF")
        )
        return {"PASS_THROUGH"} if navigating else {"RUNNING_MODAL"}

    def cancel(self, context: bpy.types.Context) -> None:
        """Blender drops the operator."""
        self._end(context)

    def _show(self, context: bpy.types.Context, bone: str) -> None:
        hint = f"{self.role}: click to use {bone}" if bone else f"{self.role}: click a bone"
        context.workspace.status_text_set(f"{hint}   Esc: cancel")
        overlay.highlight(bone)

    def _end(self, context: bpy.types.Context) -> None:
        context.window.cursor_modal_restore()
        context.workspace.status_text_set(None)
        overlay.highlight("")


def _assigned(ob: bpy.types.Object, role: str) -> str:
    """The report after an assignment, with the problem it causes, if any."""
    problem = editing.problems(ob).get(role)
    return f"{role} is {editing.table(ob)[role]}" + (f", but {problem}" if problem else "")


def bone_under(context: bpy.types.Context, ob: bpy.types.Object, x: int, y: int) -> str:
    """The bone of ``ob`` nearest to (x, y) [pixels of the window] in the 3D Viewport there; empty if there is none near."""
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
    """The visible bone nearest to (x, y) [pixels of the region], measured to its line from head to tail; empty beyond REACH.

    Of bones that are equally near, within a few pixels, the one in front. ``perspective`` (4, 4) is the view's matrix.
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
    share = np.clip(share, 0.05, 0.95)  # not at a shared joint, so that neither of its bones has an advantage
    away = np.linalg.norm(start + share[:, None] * line - point, axis=1)
    away = np.where((deep > 1e-6).all(axis=1), away, np.inf)
    if away.min() > REACH:
        return ""
    near = np.flatnonzero(away <= away.min() + 2)
    depth = deep[near].mean(axis=1)
    return bones[int(near[np.argmin(np.round(depth, 4))])].name


class NEURAL_IK_OT_roles_problem(_OneRole, bpy.types.Operator):
    """Show what is wrong with this role"""

    bl_idname = "neural_ik.roles_problem"
    bl_label = "Role Problem"
    bl_options = {"INTERNAL"}

    @classmethod
    def description(cls, context: bpy.types.Context, properties: Any) -> str:
        """The problem, as the tooltip."""
        try:
            return editing.problems(rig.find(context)).get(properties.role, "Nothing is wrong")
        except ValueError as error:
            return str(error)

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Report it."""
        self.report({"WARNING"}, f"{self.role}: {self.description(context, self)}")
        return {"FINISHED"}


class NEURAL_IK_OT_roles_mirror(_Edit, bpy.types.Operator):
    """Mirror the roles of one side to the other"""

    bl_idname = "neural_ik.roles_mirror"
    bl_label = "Mirror Roles"
    bl_options = {"REGISTER", "UNDO"}

    side: EnumProperty(
        name="From",
        items=[
            ("Left", "Left to Right", "Mirror the left side to the right"),
            ("Right", "Right to Left", "Mirror the right side to the left"),
        ],
    )

    def edit(self, context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Any, str]:
        """Mirror them."""
        lost = editing.mirror_side(ob, self.side)
        if lost:
            return "WARNING", f"Mirrored, except for bones without a counterpart: {', '.join(lost)}"
        return "INFO", f"Mirrored the {self.side.lower()} side"


class _File(_Edit if TYPE_CHECKING else object):
    """An operator on a JSON file, which opens the file browser if no file is given."""

    suggested = ""  # initial file name in the file browser

    filepath: StringProperty(name="File", subtype="FILE_PATH", options={"SKIP_SAVE"})
    filter_glob: StringProperty(default="*.json", options={"HIDDEN"})

    def path(self) -> Path:
        """The chosen file."""
        if not self.filepath:
            raise ValueError("no file was given")
        return Path(bpy.path.abspath(self.filepath))

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> Any:
        """Open the file browser."""
        if self.filepath or bpy.app.background:
            return self.execute(context)
        self.filepath = self.suggested
        context.window_manager.fileselect_add(self)
        return {"RUNNING_MODAL"}


class NEURAL_IK_OT_roles_import(_File, _Edit, bpy.types.Operator):
    """Load roles from a JSON file, such as one for the terminal's --roles option"""

    bl_idname = "neural_ik.roles_import"
    bl_label = "Import Roles"
    bl_options = {"REGISTER", "UNDO"}

    def edit(self, context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Any, str]:
        """Load them."""
        roles = editing.load(ob, self.path())
        count = sum(bone is not None for bone in roles.bones.values())
        return "INFO", f"Loaded {counted(count, 'role')} of {ob.name} from {self.path().name}"


class NEURAL_IK_OT_roles_export(_File, _Edit, bpy.types.Operator):
    """Save the roles to a JSON file, for other characters with these bones and for the terminal's --roles option"""

    bl_idname = "neural_ik.roles_export"
    bl_label = "Export Roles"
    bl_options = {"REGISTER"}
    suggested = "roles.json"

    def edit(self, context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Any, str]:
        """Save them."""
        path = self.path()
        path = path if path.suffix else path.with_suffix(".json")
        editing.save(ob, path)
        return "INFO", f"Saved the roles of {ob.name} to {path}"


class NEURAL_IK_OT_roles_save_preset(_Edit, bpy.types.Operator):
    """Save these roles as a preset, for other characters with these bones"""

    bl_idname = "neural_ik.roles_save_preset"
    bl_label = "Save Preset"
    bl_options = {"REGISTER"}

    preset: StringProperty(name="Name", description="Name of the preset. One with this name is replaced")

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> Any:
        """Open a dialog for the name."""
        if bpy.app.background:
            return self.execute(context)
        self.preset = self.preset or rig.find(context).name
        return context.window_manager.invoke_props_dialog(self)

    def edit(self, context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Any, str]:
        """Save it."""
        path = editing.preset_path(self.preset)
        path.parent.mkdir(parents=True, exist_ok=True)
        editing.save(ob, path)
        return "INFO", f"Saved the preset {path.stem} to {path}"


class NEURAL_IK_OT_roles_load_preset(_Edit, bpy.types.Operator):
    """Load the roles of a preset"""

    bl_idname = "neural_ik.roles_load_preset"
    bl_label = "Load Preset"
    bl_options = {"REGISTER", "UNDO"}

    preset: StringProperty(name="Name", options={"SKIP_SAVE"})

    def edit(self, context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Any, str]:
        """Load them."""
        path = _known_preset(self.preset)
        editing.load(ob, path)
        return "INFO", f"Loaded the roles of {ob.name} from {path.stem}"


class NEURAL_IK_OT_roles_delete_preset(_Edit, bpy.types.Operator):
    """Delete a preset"""

    bl_idname = "neural_ik.roles_delete_preset"
    bl_label = "Delete Preset"
    bl_options = {"REGISTER"}

    preset: StringProperty(name="Name", options={"SKIP_SAVE"})

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> Any:
        """Ask for confirmation."""
        if bpy.app.background:
            return self.execute(context)
        return context.window_manager.invoke_confirm(self, event)

    def edit(self, context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Any, str]:
        """Delete it."""
        path = _known_preset(self.preset)
        path.unlink(missing_ok=True)
        return "INFO", f"Deleted the preset {path.stem}"


def _known_preset(name: str) -> Path:
    path = editing.preset_path(name)
    if not path.exists():
        known = ", ".join(p.stem for p in editing.presets()) or "none"
        raise ValueError(f"there is no preset {name!r}; existing presets: {known}")
    return path


register, unregister = bpy.utils.register_classes_factory(
    (
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
)
