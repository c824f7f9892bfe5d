# SPDX-License-Identifier: GPL-3.0-or-later
"""Find motion files and read one of any format."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ...motion.clip import Clip
from ...rigs import sanity
from .. import asf_amc, bvh
from ..text import THROUGH_BLENDER

SUFFIXES = (".bvh", ".amc")
BLENDER_SUFFIXES = (".fbx", ".glb", ".gltf", ".blend", ".dae", ".usd", ".usda", ".usdc", ".abc")


def find_files(paths: Sequence[str | Path], suffixes: Sequence[str] = SUFFIXES) -> list[Path]:
    """The motion files among ``paths`` and in the folders among them, sorted, without duplicates.

    Folders are searched recursively for files of these ``suffixes`` that are not hidden; files given by name are always included.
    Raises ValueError for a path that does not exist and if there is no file.
    """
    found: dict[Path, Path] = {}
    for given in map(Path, paths):
        if given.is_dir():
            inside = sorted(
                Path(folder) / name
                for folder, _, names in os.walk(given)
                for name in names
                if name.lower().endswith(tuple(suffixes)) and not name.startswith(".")
            )
            for path in filter(Path.is_file, inside):
                found.setdefault(path.resolve(), path)
        elif given.exists():
            found.setdefault(given.resolve(), given)
        else:
            raise ValueError(f"{given}: no such file or folder")
    if not found:
        others = f"; for {files_for_blender(paths)[0].name}: {THROUGH_BLENDER}" if files_for_blender(paths) else ""
        kinds = f"{', '.join(suffixes[:-1])} or {suffixes[-1]}"
        raise ValueError(f"no {kinds} file in {', '.join(map(str, paths)) or 'nothing'}{others}")
    return sorted(found.values())


def files_for_blender(folders: Sequence[str | Path]) -> list[Path]:
    """Files in ``folders`` in formats that only Blender can read, sorted; ``find_files`` leaves them out."""
    return sorted(
        Path(folder) / name
        for given in map(Path, folders)
        for folder, _, names in os.walk(given)
        for name in names
        if name.lower().endswith(BLENDER_SUFFIXES)
    )


def read_clip(
    path: str | Path, *, up_axis: str | None = None, unit: float | None = None, fps: float | None = None
) -> Clip:
    """Read one motion file of any supported format; a person that hangs head down is turned over.

    Raises ValueError that says why the file cannot be read and what to do instead, OSError if it cannot be opened.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in BLENDER_SUFFIXES:
        raise ValueError(f"{path.name}: {suffix} files are not read here: {THROUGH_BLENDER}")
    if suffix == ".asf":
        raise ValueError(f"{path.name}: a skeleton without motion; give the .amc file, its skeleton is found beside it")
    doubts = []
    if suffix == ".amc":
        clip = asf_amc.read(None, path, up_axis=up_axis, unit=unit, fps=fps)
    else:
        clip = bvh.read(path, up_axis=up_axis, unit=unit, fps=fps)
        if unit is None:
            clip, doubt = sanity.unit_of_body(clip)
            doubts.append(doubt)
    upright, doubt = sanity.upright(clip, given=up_axis is not None)
    if upright.up_axis[-1] != clip.up_axis[-1]:  # what was guessed from the height was guessed wrongly
        upright = read_clip(path, up_axis=upright.up_axis, unit=unit, fps=fps)
        doubts.clear()
    clip = upright
    doubts.append(doubt)
    return replace(clip, warnings=(*clip.warnings, *(f"{path.name}: {doubt}" for doubt in doubts if doubt)))
