# SPDX-License-Identifier: GPL-3.0-or-later
"""What the extension holds while Blender runs, and the folder that it is kept in. Holds no Blender data."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bpy

from ...ik import density
from ...ik.network import Network
from ...motion.pose_set import PoseSet

ROOT = Path(__file__).resolve().parents[3]
"""The extension's own folder: read only, replaced by every upgrade."""

SHIPPED_DATA = ROOT / "training_data" / "training_data.npz"
SHIPPED_WEIGHTS = ROOT / "training_data" / "weights" / "best.npy"
"""Those of the built-in character and its shipped clips."""

PEOPLE_WEIGHTS = density.SHIPPED
"""Those for every other person without weights of its own."""

TRAINER = ROOT / "standalone_trainer.py"


@dataclass(frozen=True)
class Line:
    """One result in the panel."""

    text: str
    passed: bool | None = None
    """Tick, cross, or neither."""


@dataclass
class Memory:
    """The only state here that changes: operators write it, the panel and the operators read it."""

    package: str = ""
    poses: PoseSet | None = None
    poses_name: str = ""
    """The character that the poses belong to; Save to Disk makes its folder under this name."""
    poses_from: str = ""
    """Where the poses come from, as the panel shows it."""
    poses_note: str = ""
    """Why these poses and not the character's own; empty where they are."""
    unsaved: bool = False
    network: Network | None = None
    network_file: Path | None = None
    """The file the weights were read from."""
    network_seen: str = ""
    """What was in that file, in a few letters."""
    network_chosen: bool = False
    """The user chose that file, so it is used for any character that it fits."""
    network_from: str = ""
    """Whose weights these are, as the panel shows it."""
    network_note: str = ""
    """Why these weights and not the character's own; empty where they are."""
    trained: str = ""
    """Date and time at which the weights were written, for display."""
    results: tuple[Line, ...] = ()
    """Of the last test of what is loaded now."""
    card: dict[str, Any] = field(default_factory=dict)
    """The figures behind them; empty where nothing was measured."""
    curve: list[tuple[float, float]] = field(default_factory=list)
    """(share done, held-out error) of each epoch of the last training."""
    training: str = ""
    """The trainer's last message."""

    def take_poses(self, poses: PoseSet, name: str, source: str, note: str = "", unsaved: bool = False) -> None:
        """Hold other poses; arguments as the fields."""
        self.poses, self.poses_name, self.poses_from, self.poses_note = poses, name, source, note
        self.unsaved, self.results, self.card = unsaved, (), {}

    def forget_weights(self) -> None:
        """Hold no weights, and nothing about their training and tests."""
        self.network, self.network_file, self.network_seen, self.network_chosen = None, None, "", False
        self.network_from = self.network_note = self.trained = self.training = ""
        self.results, self.card, self.curve = (), {}, []


memory = Memory()


def start(package: str) -> None:
    """Begin with empty memory, for the extension of that name."""
    forget()
    memory.package = package


def forget() -> None:
    """Reset every field to its default."""
    fresh = Memory()
    for name in Memory.__dataclass_fields__:
        setattr(memory, name, getattr(fresh, name))


def preferences() -> bpy.types.AddonPreferences | None:
    """The extension's preferences; None if it was registered without being enabled."""
    addon = bpy.context.preferences.addons.get(memory.package)
    return addon.preferences if addon is not None else None


def folder() -> Path:
    """The user's folder: the one chosen in the preferences, else one that Blender keeps across upgrades."""
    own = preferences()
    chosen = getattr(own, "folder", "") if own is not None else ""
    if chosen:
        return Path(bpy.path.abspath(chosen))
    return Path(bpy.utils.extension_path_user(memory.package, path=""))


def written(path: Path) -> str:
    """Date and time at which a file was written, for display; empty if it does not exist."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(path.stat().st_mtime))
    except OSError:
        return ""
