# SPDX-License-Identifier: GPL-3.0-or-later
"""What the extension holds while Blender runs, and in which folders it is kept. Holds nothing of Blender's own."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import bpy

from ...ik.network import Network
from ...motion.pose_set import PoseSet

ROOT = Path(__file__).resolve().parents[3]
"""The extension's own folder: read only, replaced on every upgrade."""

SHIPPED_DATA = ROOT / "training_data" / "training_data.npz"
SHIPPED_WEIGHTS = ROOT / "training_data" / "weights" / "best.npy"
TRAINER = ROOT / "standalone_trainer.py"


@dataclass(frozen=True)
class Line:
    """One result for the panel."""

    text: str
    passed: bool | None = None
    """Tick, cross, or neither."""


@dataclass
class Memory:
    """The only thing here that changes: operators write it, the panel and the operators read it."""

    package: str = ""
    poses: PoseSet | None = None
    poses_from: str = ""
    """Where they come from, for people."""
    unsaved: bool = False
    network: Network | None = None
    network_from: str = ""
    trained: str = ""
    """When the weights were written, for people."""
    results: tuple[Line, ...] = ()
    """Of the last test run with what is loaded now."""
    curve: list[tuple[float, float]] = field(default_factory=list)
    """(share done, held-out error) of the last training, epoch by epoch."""
    training: str = ""
    """The last word of the trainer."""


memory = Memory()


def start(package: str) -> None:
    """Begin with nothing in memory, for the extension of that name."""
    forget()
    memory.package = package


def forget() -> None:
    """Drop everything."""
    fresh = Memory()
    for name in Memory.__dataclass_fields__:
        setattr(memory, name, getattr(fresh, name))


def preferences() -> bpy.types.AddonPreferences | None:
    """The extension's preferences; None where it was registered without being enabled."""
    addon = bpy.context.preferences.addons.get(memory.package)
    return addon.preferences if addon is not None else None


def folder() -> Path:
    """The user's folder: the one chosen in the preferences, else one that Blender keeps across upgrades."""
    own = preferences()
    chosen = getattr(own, "folder", "") if own is not None else ""
    if chosen:
        return Path(bpy.path.abspath(chosen))
    return Path(bpy.utils.extension_path_user(memory.package, path=""))


def data_path() -> Path:
    """Where Save to Disk writes and Train reads."""
    return folder() / "training_data.npz"


def weights_path() -> Path:
    """Where Train writes."""
    return folder() / "weights" / "best.npy"


def data_to_load() -> tuple[Path, bool]:
    """The user's poses where there are any, else the shipped ones; and whether they are shipped."""
    return (data_path(), False) if data_path().exists() else (SHIPPED_DATA, True)


def weights_to_load() -> tuple[Path, bool]:
    """The user's weights where there are any, else the shipped ones; and whether they are shipped."""
    return (weights_path(), False) if weights_path().exists() else (SHIPPED_WEIGHTS, True)


def written(path: Path) -> str:
    """When a file was written, for people; empty where it is not there."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(path.stat().st_mtime))
    except OSError:
        return ""
