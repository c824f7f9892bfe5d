# SPDX-License-Identifier: GPL-3.0-or-later
"""The zip: what it holds, that it works from a read-only folder, and that it leaves without a trace."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from types import ModuleType

from conftest import REPO

from .conftest import EXTENSION, wing


def test_the_zip_holds_what_users_need_and_nothing_else(built_zip: Path) -> None:
    names = set(zipfile.ZipFile(built_zip).namelist())
    needed = {"__init__.py", "blender_manifest.toml", "LICENSE", "training_data/training_data.npz"}
    needed |= {p.relative_to(REPO).as_posix() for p in (REPO / "neural_network").rglob("*.py")}
    needed |= {"standalone_trainer.py", "batch_extract.py"}
    assert needed <= names
    roots = {name.split("/")[0] for name in names}
    assert roots <= {
        "neural_network",
        "training_data",
        "standalone_trainer.py",
        "batch_extract.py",
        "__init__.py",
        "blender_manifest.toml",
        "LICENSE",
    }
    assert not [name for name in names if "__pycache__" in name or Path(name).name.startswith(".")]


def test_every_operator_and_panel_is_there_and_all_leave_without_a_trace(extension: ModuleType) -> None:
    import addon_utils
    import bpy

    def traces() -> set[str]:
        found = {f"class {name}" for name in dir(bpy.types) if name.startswith("NEURAL_IK")}
        found |= {f"operator {name}" for name in dir(bpy.ops.neural_ik)}
        found |= {
            f"property {t.__name__}.neural_ik"
            for t in (bpy.types.Scene, bpy.types.Action, bpy.types.Object)
            if hasattr(t, "neural_ik")
        }
        for name in dir(bpy.app.handlers):
            handlers = getattr(bpy.app.handlers, name)
            if isinstance(handlers, list):
                found |= {f"handler {name} {h.__module__}" for h in handlers if EXTENSION in h.__module__}
        return found

    before = traces()
    for name in (
        "load_data",
        "load_weights",
        "import_mocap",
        "run_tests",
        "extract_data",
        "save_data",
        "show_path",
        "reset_weights",
        "train",
        "add_demo_character",
    ):
        assert f"operator {name}" in before
    assert any(t.startswith("handler load_pre") for t in before)
    addon_utils.disable(EXTENSION)
    try:
        assert traces() == set()
    finally:
        addon_utils.enable(EXTENSION, default_set=True)
    assert traces() == before


def test_it_works_from_a_read_only_folder(demo: object) -> None:
    import bpy

    folder = Path(wing("blender.host.memory").ROOT)
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*") if "__pycache__" not in p.parts}
    modes = {p: p.stat().st_mode for p in (folder, *folder.rglob("*"))}
    for path, mode in modes.items():
        os.chmod(path, mode & ~0o222)
    try:
        bpy.ops.neural_ik.extract_data()
        bpy.ops.neural_ik.save_data()
        bpy.ops.neural_ik.load_data()
    finally:
        for path, mode in modes.items():
            os.chmod(path, mode)
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*") if "__pycache__" not in p.parts} == before
