# SPDX-License-Identifier: GPL-3.0-or-later
"""The rigs that are taught: their trainees in memory, learning, and their weights on disk by fingerprint."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Container
from pathlib import Path

import numpy as np

from .handshake import Hello
from .layouts import ChannelLayout
from .learner import new_trainee
from .trainee import Settings, Trainee

MOST_RIGS = 8
"""In memory."""
MOST_FILES = 64
"""In the folder."""


@dataclasses.dataclass
class TaughtRig:
    """A rig's trainee and what it learns."""

    fingerprint: str
    name: str
    layout: ChannelLayout
    trainee: Trainee
    rng: np.random.Generator
    saved_at: int = 0
    """Frames seen when it was saved last."""


class RigStore:
    """Trainees by fingerprint. ``folder`` keeps the weights, None keeps none; ``tell(kind, text)`` receives events."""

    def __init__(self, folder: Path | None, settings: Settings, seed: int, tell: Callable[[str, str], None]) -> None:
        self.folder, self.settings = folder, settings
        self.rigs: dict[str, TaughtRig] = {}
        self._seed, self._tell = seed, tell

    def open(self, hello: Hello, in_use: Container[str]) -> tuple[TaughtRig, bool]:
        """The rig of a handshake with a layout, and whether it was known: from memory, else from disk, else new.

        Makes room where ``MOST_RIGS`` are in memory by saving one whose fingerprint is not ``in_use``; raises ValueError
        where all are.
        """
        if hello.fingerprint in self.rigs:
            return self.rigs[hello.fingerprint], True
        if len(self.rigs) >= MOST_RIGS:
            self._evict(in_use)
        settings = self.settings
        if hello.threshold is not None:
            settings = dataclasses.replace(settings, threshold=hello.threshold)
        assert hello.layout is not None
        trainee = new_trainee(hello.layout, settings, self._seed)
        rng = np.random.default_rng(self._seed + 1)
        rig = TaughtRig(hello.fingerprint, hello.rig, hello.layout, trainee, rng)
        found = self._load(rig)
        self.rigs[hello.fingerprint] = rig
        return rig, found

    def save(self, rig: TaughtRig) -> bool:
        """Save a rig's trainee; False where there is no folder, or it is full. Raises OSError."""
        path = self._path(rig)
        if path is None:
            return False
        if not path.exists() and len(list(path.parent.glob("*.npz"))) >= MOST_FILES:
            self._tell("error", f"{path.parent}: expected at most {MOST_FILES} rigs; delete some to save more")
            return False
        rig.trainee.save(path)
        rig.saved_at = rig.trainee.frames
        self._tell("saved", f"{rig.name}: saved after {rig.trainee.frames} frames")
        return True

    def save_changed(self) -> int:
        """Save every rig that has learned since it was saved last; returns how many. Raises OSError."""
        return sum(self.save(rig) for rig in self.rigs.values() if rig.trainee.frames != rig.saved_at)

    @property
    def hungry(self) -> bool:
        """Whether there is something to learn."""
        return any(rig.trainee.hungry for rig in self.rigs.values())

    def learn(self, seconds: float) -> None:
        """Take training steps for ``seconds``, the rigs in turn; at least one step of each where one is due."""
        hungry = [rig.trainee for rig in self.rigs.values() if rig.trainee.hungry]
        end = time.perf_counter() + seconds
        while hungry:
            for trainee in hungry:
                trainee.train(1)
            if time.perf_counter() >= end:
                return
            hungry = [trainee for trainee in hungry if trainee.hungry]

    def _evict(self, in_use: Container[str]) -> None:
        idle = next((rig for key, rig in self.rigs.items() if key not in in_use), None)
        if idle is None:
            raise ValueError(f"expected at most {MOST_RIGS} rigs at a time; close one first")
        self.save(idle)
        del self.rigs[idle.fingerprint]

    def _load(self, rig: TaughtRig) -> bool:
        path = self._path(rig)
        if path is None or not path.is_file():
            return False
        try:
            rig.trainee.load(path)
        except ValueError as error:
            self._tell("error", f"{error}; starting untrained")
            return False
        rig.saved_at = rig.trainee.frames
        return True

    def _path(self, rig: TaughtRig) -> Path | None:
        return None if self.folder is None else self.folder / f"{rig.fingerprint}.npz"
