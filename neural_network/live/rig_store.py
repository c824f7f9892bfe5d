# SPDX-License-Identifier: GPL-3.0-or-later
"""The rigs that are taught: their trainees in memory, learning, and their weights on disk by fingerprint.

A rig that nobody has taught costs nothing: it takes no place and is never saved. One that was taught stays in memory until
its file holds all of it, and no file is deleted, or overwritten while it cannot be read or holds what another program has
saved meanwhile (``kept_file.py``). Files are written in small pieces between other work, one rig at a time, so that nobody
waits for them; only ``save_changed`` waits for the disk.
"""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Callable, Container, Iterator
from pathlib import Path

import numpy as np

from ..core.messages import counted
from .frame_store import Changed
from .handshake import Hello
from .kept_file import KeptFile, unused
from .layouts import ChannelLayout
from .learner import new_trainee, weight_count
from .trainee import Settings, Trainee

MOST_RIGS = 16
"""Taught rigs in memory: as many as there are clients, so that one who comes always finds a place that nobody uses."""
MOST_FILES = 64
"""In the folder."""
MOST_WEIGHTS = 384 * 1024
"""Of a rig's network: 1.5 MiB."""
PIECES_SECONDS = 0.001
"""[s] of saving at a time; it may last one piece longer."""
AUTOSAVE_SECONDS = 30.0
"""[s] between two times that everything that has learned is saved."""


@dataclasses.dataclass
class TaughtRig:
    """A rig and what it learns."""

    fingerprint: str
    name: str
    layout: ChannelLayout
    trainee: Trainee
    rng: np.random.Generator
    file: KeptFile = dataclasses.field(default_factory=lambda: KeptFile(None))
    """Where it is kept."""
    not_saved: str = ""
    """Why it cannot be saved, in words; empty where it can, as far as is known."""
    spent: float = 0.0
    """Time that it has used to learn [s]: it is always the turn of the rig that has used least."""
    keep_file: bool = False
    """Its file could neither be read nor set aside: it is never overwritten."""

    @property
    def changed(self) -> bool:
        """Whether it has learned since it was saved last. What nobody has taught never has."""
        return self.file.changed(self.trainee)


class RigStore:
    """Trainees by fingerprint. ``folder`` keeps the weights, None keeps none; ``tell(kind, text)`` receives events."""

    def __init__(self, folder: Path | None, settings: Settings, seed: int, tell: Callable[[str, str], None]) -> None:
        self.folder, self.settings = folder, settings
        self.rigs: dict[str, TaughtRig] = {}
        self._seed, self._tell = seed, tell
        self._writer: _Writer | None = None
        self._queue: list[str] = []
        """Fingerprints of rigs that wait to be saved."""
        self._autosaved = float("-inf")
        self._turn = 0.0
        """Time that the rig which learned last has used [s]."""

    def open(self, hello: Hello, in_use: Container[str]) -> tuple[TaughtRig, bool, str]:
        """The rig of a handshake with a layout, whether it was known, and a sentence for the client, empty for none.

        From memory, else from disk, else new; also from disk where another program has saved more than an idle rig in memory
        knows. A file that cannot be read is set aside, and the rig starts untrained.
        ``in_use``: fingerprints of the rigs of other clients. Raises ValueError where a rig has too many weights, or was
        saved and cannot come into memory because others are kept there.
        """
        self.forget_untaught(in_use)
        known = self.rigs.get(hello.fingerprint)
        if known is not None and not (hello.fingerprint not in in_use and known.file.outdated(known.trainee)):
            return known, True, ""
        assert hello.layout is not None
        settings = self.settings
        if hello.threshold is not None:
            settings = dataclasses.replace(settings, threshold=hello.threshold)
        weights = weight_count(hello.layout, settings)
        if weights > MOST_WEIGHTS:
            raise ValueError(
                f"channels: expected a network of at most {MOST_WEIGHTS:,} weights, got {weights:,}; send fewer channels"
            )
        trainee = new_trainee(hello.layout, settings, self._seed)
        rng = np.random.default_rng(self._seed + 1)
        path = None if self.folder is None else self.folder / f"{hello.fingerprint}.npz"
        rig = TaughtRig(hello.fingerprint, hello.rig, hello.layout, trainee, rng, KeptFile(path))
        note = ""
        if path is not None and os.path.lexists(path):
            if known is None:
                self.make_room(in_use)
            note = self._load(rig, path)
            if note and known is not None:  # what is in memory is the only sound copy
                known.file.saved_at, rig = -1, known
                note += "; going on with what is in memory"
            elif note:
                note += "; starting untrained"
        elif path is not None and self._full(path):
            note = rig.not_saved = self._full_text()
        self.rigs[hello.fingerprint] = rig
        if note:
            self._tell("error", note)
        return rig, rig.trainee.frames > 0, note

    def make_room(self, in_use: Container[str]) -> None:
        """Make sure that one more taught rig may be in memory. Raises ValueError where none can leave it.

        Only a rig that is saved and not ``in_use`` leaves. Those that can be saved are queued, and leave later.
        """
        taught = [rig for rig in self.rigs.values() if rig.trainee.frames]
        if len(taught) < MOST_RIGS:
            return
        idle = [rig for rig in taught if rig.fingerprint not in in_use]
        saved = [rig for rig in idle if not rig.changed][: len(taught) + 1 - MOST_RIGS]
        for rig in saved:
            del self.rigs[rig.fingerprint]
        soon = sum([self.request(rig) for rig in idle if rig.changed])
        if saved or (soon and len(taught) < 2 * MOST_RIGS):  # those that are being saved leave a little later
            return
        reason = next((rig.not_saved for rig in idle if rig.not_saved), "")
        text = f"expected at most {MOST_RIGS} taught rigs in memory, and all of them are in use or not saved yet"
        raise ValueError(f"{text}: {reason or 'try again in a moment'}")

    def forget_untaught(self, in_use: Container[str]) -> None:
        """Drop rigs without a single frame that no client uses."""
        for key in [k for k, rig in self.rigs.items() if rig.trainee.frames == 0 and k not in in_use]:
            del self.rigs[key]

    # -- saving ------------------------------------------------------------------------------------------------------

    def request(self, rig: TaughtRig) -> bool:
        """Save a rig soon, in the background; False, with the reason in ``not_saved``, where that is known to fail."""
        path = rig.file.path
        if path is None:
            rig.not_saved = "the server has no folder for weights"
        elif rig.keep_file:
            return False  # the reason stays
        elif path.exists() and not path.is_file():  # a pipe would block
            rig.not_saved = f"{rig.name} could not be saved: {path} is not a file; remove it"
        elif self._full(path):
            rig.not_saved = self._full_text()
        else:
            if rig.changed and rig.fingerprint not in self._queue:
                self._queue.append(rig.fingerprint)
            return True
        return False

    @property
    def writing(self) -> bool:
        """Whether something is being saved."""
        return self._writer is not None or bool(self._queue)

    def pending(self, rig: TaughtRig) -> bool:
        """Whether a rig waits to be saved, or is being saved."""
        return rig.fingerprint in self._queue or (self._writer is not None and self._writer.rig is rig)

    def tend(self, now: float) -> None:
        """Go on saving for ``PIECES_SECONDS``; queue what has changed every ``AUTOSAVE_SECONDS``."""
        if self._autosaved == float("-inf") or now < self._autosaved:
            self._autosaved = now
        if now - self._autosaved >= AUTOSAVE_SECONDS:
            self._autosaved = now
            for rig in self.rigs.values():
                if rig.changed and self.folder is not None:
                    self.request(rig)
        while self._queue and self._writer is None:
            rig_or_none = self.rigs.get(self._queue.pop(0))
            if rig_or_none is not None and rig_or_none.changed:
                self._begin(rig_or_none)
        if self._writer is not None:
            self._go_on(PIECES_SECONDS)

    def save_changed(self) -> int:
        """Save every rig that has learned since it was saved last, and wait for it; returns how many.

        Raises OSError where some could not be saved, once all others are; there are no more reasons than rigs.
        """
        self._go_on(math.inf)
        count, reasons = 0, []
        for rig in [rig for rig in self.rigs.values() if rig.changed]:
            if self.folder is None:
                continue
            if self.request(rig):
                self._begin(rig)
                self._go_on(math.inf)
                count += not rig.changed
            if rig.changed:
                reasons.append(f"{rig.name}: {rig.not_saved}")
        self._queue.clear()
        if reasons:
            raise OSError(f"{len(reasons)} of the taught rigs could not be saved: {'; '.join(reasons)[:2000]}")
        return count

    def _begin(self, rig: TaughtRig) -> None:
        self._writer = _Writer(rig, rig.trainee.frames, rig.file.note, rig.file.save_in_pieces(rig.trainee))

    def _go_on(self, seconds: float) -> None:
        """Write pieces of the rig that is being saved; whatever goes wrong is its matter alone."""
        writer, end = self._writer, time.perf_counter() + seconds
        while writer is not None:
            rig, done = writer.rig, writer
            try:
                writer.with_weights = next(writer.pieces)
            except StopIteration:
                self._writer = writer = None
                rig.not_saved = ""
                self._tell("saved", f"{rig.name}: saved after {counted(done.frames, 'frame')}")
                if rig.file.note != done.note:
                    self._tell("error", f"{rig.name}: {rig.file.note}")
            except Changed:  # what it is now is saved next
                self._writer = writer = None
                self.request(rig)
            except Exception as error:
                self._writer = writer = None
                self._failed(rig, f"{rig.name} could not be saved: {error or type(error).__name__}")
            if time.perf_counter() >= end:
                return

    def _failed(self, rig: TaughtRig, reason: str) -> None:
        if rig.not_saved != reason:  # said once, however often it is tried
            self._tell("error", reason)
        rig.not_saved = reason

    # -- learning ----------------------------------------------------------------------------------------------------

    @property
    def hungry(self) -> bool:
        """Whether there is something to learn."""
        return any(self._may_learn(rig) for rig in self.rigs.values())

    def _may_learn(self, rig: TaughtRig) -> bool:
        written = self._writer is not None and self._writer.rig is rig and self._writer.with_weights
        return rig.trainee.hungry and not written

    def learn(self, seconds: float, interrupted: Callable[[], bool] = lambda: False) -> None:
        """Take training steps for ``seconds``, the rigs in turn, at least one step where one is due.

        Ends early, also in the middle of a step, which the next call completes, once ``interrupted``; and once a rig has got
        some of the memory that it needs for its first step: no more at a time. A rig that cannot learn is paused, and the
        others go on.
        """
        end = time.perf_counter() + seconds
        while hungry := [rig for rig in self.rigs.values() if self._may_learn(rig)]:
            rig = min(hungry, key=lambda r: (not r.trainee.begun, r.spent))  # never more than one that is not complete
            if not rig.trainee.begun:
                rig.spent = self._turn = max(rig.spent, self._turn)
            began, complete = time.perf_counter(), True
            try:
                if rig.trainee.prepare():
                    return
                complete = rig.trainee.go_on()
                rig.spent += time.perf_counter() - began
            except Exception as error:  # of this rig alone
                rig.trainee.pause()
                self._tell("error", f"{rig.name} stopped learning: {type(error).__name__}: {error}")
            if (complete and time.perf_counter() >= end) or interrupted():
                return

    # -- files -------------------------------------------------------------------------------------------------------

    def _load(self, rig: TaughtRig, path: Path) -> str:
        """Read a rig's file; returns what went wrong, in words, and where the file is now."""
        try:
            rig.file.load(rig.trainee)
        except Exception as error:  # whatever is in a file, it is that file's matter alone
            reason = f"{rig.name}: the saved weights could not be read ({str(error)[:300] or type(error).__name__})"
        else:
            return ""
        rig.trainee = new_trainee(rig.layout, rig.trainee.settings, self._seed)
        try:
            aside = unused(path, "damaged")
            os.rename(path, aside)
        except OSError as error:
            rig.keep_file = True
            rig.not_saved = (
                f"{path.name} is left untouched and nothing is saved over it, as it could not be renamed "
                f"({error.strerror or error}). {reason}"
            )
            return rig.not_saved
        return f"{reason}; the file is now {aside.name}"

    def _full(self, path: Path) -> bool:
        try:
            return not path.exists() and len(list(path.parent.glob("*.npz"))) >= MOST_FILES
        except OSError:
            return False  # saving will say what is wrong with the folder

    def _full_text(self) -> str:
        return (
            f"{self.folder} holds {MOST_FILES} rigs already, so no other rig is saved; move some of its files elsewhere"
        )


@dataclasses.dataclass
class _Writer:
    """A rig that is being saved."""

    rig: TaughtRig
    frames: int
    note: str
    """Of the rig and its file when it began."""
    pieces: Iterator[bool]
    with_weights: bool = True
    """The weights are still being written, so they must not change."""
