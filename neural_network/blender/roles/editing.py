# SPDX-License-Identifier: GPL-3.0-or-later
"""Finding, editing, mirroring, saving and loading the roles of an armature object."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from ...rigs import role_edits
from ...rigs.roles import ROLE_NAMES, Roles, named_roles, read_table, save_roles
from ..host import memory, rig

FORBIDDEN = '/\\:*?"<>|'  # characters that some operating system does not allow in file names
_quiet = False  # True while the extension itself sets properties, which is not an edit by the user


@dataclass(frozen=True)
class FoundRoles:
    """The last result of Find Roles, or the last preset or file loaded, with the reasons that the panel shows."""

    roles: dict[str, tuple[str, float, str]] = field(default_factory=dict)
    """Role -> bone, confidence from 0 to 1, and the reason as a phrase."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Bone -> why it has no role."""
    notes: tuple[str, ...] = ()


def table(ob: bpy.types.Object) -> dict[str, str]:
    """Role -> bone name of an object; empty if its roles are found automatically."""
    return rig.given_roles(ob)


def found(ob: bpy.types.Object) -> FoundRoles:
    """The last result; empty if there is none or its text in the file is damaged."""
    own: Any = ob.neural_ik_roles  # type: ignore[attr-defined]
    return _read_found(own.found)


@lru_cache(maxsize=8)
def _read_found(text: str) -> FoundRoles:
    try:
        data = json.loads(text) if text else {}
        roles = {str(r): (str(b), float(c), str(w)) for r, (b, c, w) in data.get("roles", {}).items()}
        left_out = {str(bone): str(why) for bone, why in data.get("left_out", {}).items()}
        return FoundRoles(roles, left_out, tuple(map(str, data.get("notes", ()))))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return FoundRoles()


def explain(ob: bpy.types.Object, role: str) -> tuple[float | None, str]:
    """Confidence and reason for a role's bone. A bone set by hand has no confidence, an empty role no reason."""
    bone = table(ob).get(role, "")
    known = found(ob).roles.get(role)
    if known is not None and known[0] == bone:
        return known[1], known[2]
    return None, "set by hand" if bone else ""


def left_out(ob: bpy.types.Object) -> dict[str, list[str]]:
    """Reason -> the bones that have no role for this reason; reasons with few bones come first."""
    used = set(table(ob).values())
    known = found(ob)
    by_bone = {bone: why for bone, why in known.left_out.items() if bone not in used}
    by_bone.update({bone: "its role was removed by hand" for bone, _, _ in known.roles.values() if bone not in used})
    groups: dict[str, list[str]] = {}
    for bone, why in by_bone.items():
        groups.setdefault(why, []).append(bone)
    return dict(sorted(groups.items(), key=lambda item: (len(item[1]), item[0])))


def problems(ob: bpy.types.Object) -> dict[str, str]:
    """Role -> what is wrong with its bone."""
    given = table(ob)
    if not given or ob.pose is None:
        return {}
    return role_edits.problems(given, [pb.name for pb in ob.pose.bones], rig.parents_of(ob))


# ---- editing


def require_roles(context: bpy.types.Context) -> bpy.types.Object:
    """The active armature object. Raises ValueError if there is none or its roles cannot be edited."""
    ob = rig.find(context)
    if ob.library is not None:
        raise ValueError(
            f"{ob.name} is linked from a library: make a library override first (Object > Library Override > Make)"
        )
    return ob


def find(ob: bpy.types.Object) -> FoundRoles:
    """Find the roles of an armature and store them. Raises ValueError if it has no bones or is in Edit Mode."""
    if ob.mode == "EDIT":
        raise ValueError(f"{ob.name} is in Edit Mode: leave it first (Tab)")
    if ob.pose is None:
        bpy.context.view_layer.update()
    if ob.pose is None or not ob.pose.bones:
        raise ValueError(f"{ob.name} has no bones")
    names = [pb.name for pb in ob.pose.bones]
    roles = rig.find_roles(ob)
    why = role_edits.reasons(roles, names)
    if set(ROLE_NAMES) <= set(names):
        why = dict.fromkeys(ROLE_NAMES, "named as on the built-in rig")
    used = set(roles.bones.values())
    skipped = roles.skipped or {n: "not needed for any role" for j, n in enumerate(names) if j not in used}
    known = {r: (names[j], roles.confidence.get(r, 0.0), why[r]) for r, j in roles.bones.items() if j is not None}
    result = FoundRoles(known, skipped, roles.notes)
    _write(ob, {role: bone for role, (bone, _, _) in known.items()}, result)
    return result


def clear(ob: bpy.types.Object) -> None:
    """Clear the roles, so that they are found automatically."""
    _write(ob, {}, FoundRoles())


def edit(ob: bpy.types.Object, role: str, bone: str) -> None:
    """Assign a role to a bone, or to none if ``bone`` is empty; with Mirror on, the other side too.

    Raises ValueError for an unknown role or bone.
    """
    if role not in ROLE_NAMES:
        raise ValueError(f"unknown role {role!r}; the roles are {', '.join(ROLE_NAMES)}")
    if bone and (ob.pose is None or bone not in ob.pose.bones):
        raise ValueError(f"{ob.name} has no bone {bone!r}")
    setattr(ob.neural_ik_roles, role, bone)  # type: ignore[attr-defined]


def after_edit(ob: bpy.types.Object, role: str) -> None:
    """Mirror an edit of ``role`` if Mirror is on, and redraw."""
    view: Any = bpy.context.window_manager.neural_ik_roles_view
    if _quiet:
        return
    if view.mirror and role_edits.other_side(role):
        mirror(ob, role)
    redraw()


def mirror(ob: bpy.types.Object, role: str) -> str | None:
    """Assign the mirrored role to the mirrored bone, or to none if this role has no bone.

    Returns that bone; None, with nothing changed, if this role's bone has no mirrored counterpart.
    """
    own: Any = ob.neural_ik_roles  # type: ignore[attr-defined]
    bone = getattr(own, role)
    partner: str | None = ""
    if bone:
        bones = ob.pose.bones if ob.pose is not None else ()
        if bone not in bones:
            return None
        names = [pb.name for pb in bones]
        heads, tails = (np.array([getattr(pb.bone, end) for pb in bones]) for end in ("head_local", "tail_local"))
        partner = role_edits.mirror(bone, table(ob), names, rig.parents_of(ob), heads, tails)
    if partner is not None:
        with _quietly():
            setattr(own, role_edits.other_side(role), partner)
    return partner


def mirror_side(ob: bpy.types.Object, side: str) -> list[str]:
    """Mirror all roles of ``side`` ("Left" or "Right") to the other side; returns those whose bone has no counterpart."""
    return [role for role in ROLE_NAMES if role_edits.side_of(role) == side and mirror(ob, role) is None]


def is_visible(pb: bpy.types.PoseBone) -> bool:
    """Whether a bone is shown: not hidden itself, and in at least one visible collection if it is in any."""
    collections = pb.bone.collections
    if pb.bone.hide or getattr(pb, "hide", False):  # since Blender 5 pose bones have a hide of their own
        return False
    solo = pb.id_data.data.collections.is_solo_active
    return not collections or any(c.is_solo if solo else c.is_visible_effectively for c in collections)


def redraw() -> None:
    """Redraw the 3D Viewports and their sidebars."""
    for window in bpy.context.window_manager.windows:
        for area in window.screen.areas:
            if area.type == "VIEW_3D":
                area.tag_redraw()


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    global _quiet
    before, _quiet = _quiet, True
    try:
        yield
    finally:
        _quiet = before


def _write(ob: bpy.types.Object, bones: Mapping[str, str], known: FoundRoles) -> None:
    own: Any = ob.neural_ik_roles  # type: ignore[attr-defined]
    text = {"roles": known.roles, "left_out": known.left_out, "notes": known.notes}
    with _quietly():
        own.found = json.dumps(text, ensure_ascii=False) if bones or known.notes else ""
        for role in ROLE_NAMES:
            setattr(own, role, bones.get(role, ""))
    redraw()


# ---- files and presets


def save(ob: bpy.types.Object, path: Path) -> None:
    """Write the roles to a file for the terminal's ``--roles FILE``. Raises ValueError if there are none or they conflict."""
    given = table(ob)
    if not given:
        raise ValueError(f"{ob.name} has no roles yet: press Find Roles or choose bones")
    names = [pb.name for pb in ob.pose.bones]
    save_roles(path, named_roles(given, names, f"the roles of {ob.name}"), names)


def load(ob: bpy.types.Object, path: Path) -> Roles:
    """Load the roles from a file. Raises ValueError, with nothing changed, for a damaged file and for missing bones."""
    if ob.mode == "EDIT" or ob.pose is None:
        raise ValueError(f"{ob.name} is in Edit Mode: leave it first (Tab)")
    names = [pb.name for pb in ob.pose.bones]
    given = read_table(path)
    roles = named_roles(given, names, path.name)
    if not given:
        raise ValueError(f"{path.name} assigns no bone to any role")
    used = set(given.values())
    known = {role: (bone, 1.0, f"from {path.name}") for role, bone in given.items()}
    _write(ob, given, FoundRoles(known, {n: f"no role in {path.name}" for n in names if n not in used}))
    return roles


def presets_folder() -> Path:
    """The folder that presets are saved in."""
    return memory.folder() / "roles"


def presets() -> list[Path]:
    """The files of all presets, sorted by name."""
    try:
        return sorted(presets_folder().glob("*.json"), key=lambda path: path.stem.lower())
    except OSError:
        return []


def preset_path(name: str) -> Path:
    """The file of a preset. Raises ValueError for an invalid name."""
    name = name.strip()
    if not name:
        raise ValueError("a preset needs a name")
    if name.startswith(".") or any(c in FORBIDDEN or ord(c) < 32 for c in name):
        raise ValueError(f"invalid preset name {name!r}: it may not start with a dot or contain {' '.join(FORBIDDEN)}")
    return presets_folder() / f"{name}.json"
