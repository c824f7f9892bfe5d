# SPDX-License-Identifier: GPL-3.0-or-later
"""The extension as users have it: built by Blender's own builder, installed from the zip for a fresh user, enabled.

The modules under test are those of the installed zip, found by :func:`wing`; the source tree is not imported for them.
"""

from __future__ import annotations

import atexit
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import REPO

EXTENSION = "bl_ext.user_default.neural_ik"
if "bpy" not in sys.modules:  # else this is Blender itself, and the profile is for whoever started it to choose
    _USER = tempfile.mkdtemp(prefix="neural_ik_user_")
    os.environ["BLENDER_USER_RESOURCES"] = _USER  # read when bpy is first imported, so it cannot wait for a fixture
    atexit.register(shutil.rmtree, _USER, ignore_errors=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Every test in this folder needs Blender."""
    item.add_marker("host")


def builder() -> Path:
    """Blender's own command line for extensions, inside the module bpy."""
    import bpy

    folders = [Path(p) for p in bpy.utils.script_paths(subdir="addons_core")]
    found = [path for f in folders if (path := f / "bl_pkg" / "cli" / "blender_ext.py").exists()]
    if not found:
        pytest.skip("this bpy comes without Blender's extension builder")
    return found[0]


@pytest.fixture(scope="session")
def built_zip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The zip of the extension, validated and built as a publisher does it."""
    folder = tmp_path_factory.mktemp("dist")
    for verb, *more in (("validate", str(REPO)), ("build", "--source-dir", str(REPO), "--output-dir", str(folder))):
        done = subprocess.run(
            [sys.executable, str(builder()), verb, *more], capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.zip")
    return path


@pytest.fixture(scope="session")
def extension(built_zip: Path) -> Iterator[ModuleType]:
    """The installed, enabled extension; disabled at the end of the session, so that Blender 4.2 ends in peace."""
    import addon_utils
    import bpy

    install = bpy.ops.extensions.package_install_files
    install(filepath=str(built_zip), repo="user_default", enable_on_install=False, overwrite=True)
    importlib.invalidate_caches()  # Python may have looked into the folder a moment before
    addon_utils.enable(EXTENSION, default_set=True)
    assert addon_utils.check(EXTENSION) == (True, True)
    yield sys.modules[EXTENSION]
    addon_utils.disable(EXTENSION)


def wing(name: str) -> ModuleType:
    """A module of the installed extension, such as "blender.data"."""
    return importlib.import_module(f"{EXTENSION}.neural_network.{name}")


def kept() -> Any:
    """The active character's folder and files, as the extension keeps them."""
    import bpy

    characters = wing("blender.host.characters")
    return characters.kept(characters.active(bpy.context))


@pytest.fixture
def empty(extension: ModuleType, tmp_path: Path) -> Iterator[ModuleType]:
    """bpy with an empty scene, nothing in the extension's memory, and a user folder of the test's own."""
    import bpy

    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=False)
    memory = wing("blender.host.memory")
    memory.start(EXTENSION)
    preferences = bpy.context.preferences.addons[EXTENSION].preferences
    preferences.folder = str(tmp_path / "user")
    yield bpy
    bpy.context.preferences.addons[EXTENSION].preferences.folder = ""  # the test may have disabled and enabled it again


@pytest.fixture
def demo(empty: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> object:
    """The demo character with its actions, as the button adds it; later tests get the scene that it left, unnamed."""
    scene = tmp_path_factory.getbasetemp() / "demo.blend"
    if scene.exists():
        empty.ops.wm.read_homefile(filepath=str(scene), use_factory_startup=False)
    else:
        assert empty.ops.neural_ik.add_demo_character() == {"FINISHED"}
        empty.ops.wm.save_as_mainfile(filepath=str(scene), copy=True, compress=False)
    return empty.context.active_object
