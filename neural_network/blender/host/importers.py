# SPDX-License-Identifier: GPL-3.0-or-later
"""Blender's own importers of files with characters and motion."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import bpy

ADDONS = {
    ".fbx": "io_scene_fbx",
    ".glb": "io_scene_gltf2",
    ".gltf": "io_scene_gltf2",
    ".vrma": "io_scene_gltf2",
    ".vrm": "io_scene_gltf2",
}
"""Suffix -> the add-on that reads it. VRM files are glTF files under another name."""


def importers(suffix: str) -> list[Callable[..., Any]]:
    """Blender's importers of a suffix, the best first; none where its add-on is missing."""
    ops: Any = bpy.ops
    out: list[Callable[..., Any]] = []
    if suffix == ".fbx" and "fbx_import" in dir(ops.wm):  # since Blender 4.5
        out.append(ops.wm.fbx_import)
    with contextlib.suppress(Exception):  # it may be enabled already, or missing: the next lines check
        import addon_utils

        addon_utils.enable(ADDONS[suffix], default_set=False)
    addon: Any = ops.import_scene.fbx if suffix == ".fbx" else ops.import_scene.gltf
    with contextlib.suppress(KeyError):
        addon.get_rna_type()
        out.append(addon)
    return out


def why_unread(error: Exception) -> str:
    """The message of an importer's error; for a traceback within it what to do, and the last line, which names the error."""
    lines = [
        line.strip() for line in str(error).splitlines() if line.strip() and not line.strip().startswith("Location:")
    ]
    if any("Traceback" in line for line in lines):
        return (
            f"Blender's own importer fails on it ({lines[-1]}): import it in another version of Blender and save it as "
            ".blend, or export it as .glb"
        )
    words = " ".join(lines)
    return f"Blender cannot read it: {words.removeprefix('Error:').strip() or type(error).__name__}"
