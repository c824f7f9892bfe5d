# SPDX-License-Identifier: GPL-3.0-or-later
"""The Roles panel: the bone of each role, with confidence and reason."""

from __future__ import annotations

from typing import Any, ClassVar

import bpy

from ...rigs.roles import ROLE_NAMES
from ..host import rig
from ..host.panels import Panel, paragraph
from . import editing, overlay

WIDE = 300  # [pixels]: a sidebar wider than this shows an eyedropper in every row
SURE = 0.9  # confidence from which the list says nothing
MOST_NAMED = 6  # bones that are listed per reason before "and ... more"


def _character(context: bpy.types.Context) -> bpy.types.Object | None:
    try:
        return rig.find(context)
    except ValueError:
        return None


class NEURAL_IK_UL_roles(bpy.types.UIList):
    """The 23 roles. The list shows the roles' own properties, so no collection has to be stored for it."""

    wrong: ClassVar[dict[str, str]] = {}
    """Role -> problem, set by the panel before it draws the list."""

    def draw_item(self, context, layout, data, item, icon, active_data, active_property, index=0, flt_flag=0):  # type: ignore[no-untyped-def]
        """Color, role, bone, confidence or warning, and the eyedropper."""
        ob = rig.find(context)
        role = item.identifier
        bone = getattr(ob.neural_ik_roles, role)  # type: ignore[attr-defined]
        split = layout.split(factor=0.52, align=True)
        split.label(text=role, icon=overlay.icon(role))
        row = split.row(align=True)
        row.label(text=bone or "-")
        right = row.row(align=True)
        right.alignment = "RIGHT"
        if role in self.wrong:
            right.operator("neural_ik.roles_problem", text="", icon="ERROR", emboss=False).role = role
        elif bone:
            sure, _ = editing.explain(ob, role)
            if sure is None or sure < SURE:  # the details of the active role have all of them
                right.label(text="manual" if sure is None else f"{sure:.0%}")
        if context.region.width > WIDE * context.preferences.system.ui_scale:
            right.operator("neural_ik.roles_pick", text="", icon="EYEDROPPER", emboss=False).role = role

    def filter_items(self, context, source, property):  # type: ignore[no-untyped-def]
        """Show only properties that are roles and match the filter."""
        word = self.filter_name.lower()
        items = getattr(source, property)
        shown = [item.identifier in ROLE_NAMES and word in item.identifier.lower() for item in items]
        return [self.bitflag_filter_item if yes else 0 for yes in shown], []


class NEURAL_IK_MT_role_presets(bpy.types.Menu):
    """Load a preset"""

    bl_label = "Load Preset"

    def draw(self, context: bpy.types.Context) -> None:
        """One row per preset."""
        found = editing.presets()
        for path in found:
            self.layout.operator("neural_ik.roles_load_preset", text=path.stem).preset = path.stem
        if not found:
            self.layout.label(text="No presets yet")


class NEURAL_IK_MT_roles(bpy.types.Menu):
    """More operators for roles"""

    bl_label = "Roles"

    def draw(self, context: bpy.types.Context) -> None:
        """Mirroring, presets, files."""
        layout = self.layout
        layout.operator_menu_enum("neural_ik.roles_mirror", "side", icon="MOD_MIRROR")
        layout.operator("neural_ik.roles_clear", icon="X")
        layout.separator()
        layout.operator("neural_ik.roles_save_preset", icon="ADD")
        layout.menu("NEURAL_IK_MT_role_presets", icon="PRESET")
        layout.menu("NEURAL_IK_MT_role_presets_delete", icon="TRASH")
        layout.separator()
        layout.operator("neural_ik.roles_import", icon="IMPORT")
        layout.operator("neural_ik.roles_export", icon="EXPORT")


class NEURAL_IK_MT_role_presets_delete(bpy.types.Menu):
    """Delete a preset"""

    bl_label = "Delete Preset"

    def draw(self, context: bpy.types.Context) -> None:
        """One row per preset."""
        found = editing.presets()
        self.layout.operator_context = "INVOKE_DEFAULT"
        for path in found:
            self.layout.operator("neural_ik.roles_delete_preset", text=path.stem, icon="TRASH").preset = path.stem
        if not found:
            self.layout.label(text="No presets yet")


class NEURAL_IK_PT_roles(Panel, bpy.types.Panel):
    """The bone of each role."""

    bl_label = "Roles"
    bl_parent_id = "NEURAL_IK_PT_main"
    bl_order = 0
    bl_options = {"DEFAULT_CLOSED"}

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """Only if there is a character."""
        return _character(context) is not None

    def draw(self, context: bpy.types.Context) -> None:
        """The list and the details of the active role."""
        ob = rig.find(context)
        view: Any = context.window_manager.neural_ik_roles_view
        layout: Any = self.layout
        row = layout.row(align=True)
        row.operator("neural_ik.roles_find", icon="VIEWZOOM")
        row.menu("NEURAL_IK_MT_roles", text="", icon="DOWNARROW_HLT")
        if rig.given_effectors(ob)[1]:
            paragraph(layout, "Ignored: the Effectors panel defines the controlled bones", context, "INFO")
        given, notes = editing.table(ob), editing.found(ob).notes
        if not given and not notes:
            paragraph(layout, "Found automatically when needed", context, "INFO")
            return
        row = layout.row(align=True)
        row.prop(view, "mirror", icon="MOD_MIRROR", toggle=True)
        row.prop(view, "overlay", icon="OVERLAY", toggle=True)
        sub = row.row(align=True)
        sub.active = view.overlay
        sub.prop(view, "names", text="", icon="FONT_DATA")
        for note in notes:
            paragraph(layout, note[0].upper() + note[1:], context, "INFO")
        roles: Any = ob.neural_ik_roles  # type: ignore[attr-defined]
        NEURAL_IK_UL_roles.wrong = wrong = editing.problems(ob)
        layout.template_list("NEURAL_IK_UL_roles", "", type(roles).bl_rna, "properties", view, "index", rows=8)
        self._active(context, ob, view.index, wrong)

    def _active(self, context: bpy.types.Context, ob: bpy.types.Object, index: int, wrong: dict[str, str]) -> None:
        properties = type(ob.neural_ik_roles).bl_rna.properties  # type: ignore[attr-defined]
        role = properties[index].identifier if 0 <= index < len(properties) else ""
        if role not in ROLE_NAMES:
            return
        box: Any = self.layout.box().column(align=True)
        box.label(text=f"{role}: {overlay.GROUPS[overlay.group(role)]}", icon=overlay.icon(role))
        box.prop_search(ob.neural_ik_roles, role, ob.data, "bones", text="")  # type: ignore[attr-defined]
        row = box.row(align=True)
        row.operator("neural_ik.roles_pick", icon="EYEDROPPER").role = role
        row.operator("neural_ik.roles_from_active", text="Active Bone", icon="BONE_DATA").role = role
        sure, why = editing.explain(ob, role)
        reason = why if sure is None or not why else f"{sure:.0%} confidence: {why}"
        paragraph(box, reason or "No bone", context, "BLANK1")
        paragraph(box, wrong.get(role, ""), context, "ERROR")


class NEURAL_IK_PT_roles_left_out(Panel, bpy.types.Panel):
    """Bones without a role, and why."""

    bl_label = "Bones Without a Role"
    bl_parent_id = "NEURAL_IK_PT_roles"
    bl_options = {"DEFAULT_CLOSED"}

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """Only if there are any."""
        ob = _character(context)
        return ob is not None and bool(editing.left_out(ob))

    def draw(self, context: bpy.types.Context) -> None:
        """The bones by reason, reasons with few bones first."""
        for why, bones in editing.left_out(rig.find(context)).items():
            box = self.layout.box().column(align=True)
            paragraph(box, f"{len(bones)}: {why}", context, "REMOVE")
            more = f" and {len(bones) - MOST_NAMED} more" if len(bones) > MOST_NAMED else ""
            names = box.column(align=True)
            names.active = False
            paragraph(names, ", ".join(bones[:MOST_NAMED]) + more, context, "BLANK1")


register, unregister = bpy.utils.register_classes_factory(
    (
        NEURAL_IK_UL_roles,
        NEURAL_IK_MT_role_presets,
        NEURAL_IK_MT_role_presets_delete,
        NEURAL_IK_MT_roles,
        NEURAL_IK_PT_roles,
        NEURAL_IK_PT_roles_left_out,
    )
)
