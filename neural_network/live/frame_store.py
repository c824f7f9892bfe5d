# SPDX-License-Identifier: GPL-3.0-or-later
"""The frames that a trainee has seen, for learning from random batches of the past, in bounded memory.

Reservoir sampling (Vitter 1985) keeps any frame of the past as likely as any other, but the newest always comes in. While
the trainee is being saved, frames still come: a row that is overwritten is first set aside, so that the file holds the
rows as they were when saving began, without a copy of all of them.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..learning import model_file

_GROWTH = 128 << 10  # [bytes] by which the store grows, at most
_FIRST_ROWS = 64
NAMES = ("replay.inputs", "replay.outputs", "replay.frame")
"""Of its three arrays in a file."""


class Changed(Exception):
    """A trainee was reset, undone or loaded while it was being saved: nothing was written."""


class FrameStore:
    """Rows of inputs (N, I) and outputs (N, O) in float32, and the number of the frame that each came with (N).

    ``capacity``: most rows; ``recent``: how many of the newest :meth:`batch` always takes.
    """

    def __init__(self, inputs: int, outputs: int, capacity: int, recent: int) -> None:
        self.capacity, self.recent = capacity, recent
        self._sizes = inputs, outputs
        self.clear()

    def clear(self) -> None:
        """Drop all rows."""
        self.x, self.y = (np.zeros((0, size), np.float32) for size in self._sizes)
        self.age = np.zeros(0, np.int64)
        self.stored = 0
        self._newest: list[int] = []
        self._overwritten: dict[int, tuple[Any, ...]] | None = None
        """While it is being saved: index of a row -> what it was when saving began."""

    def keep(self, x: np.ndarray, y: np.ndarray, frame: int, rng: np.random.Generator) -> None:
        """Store a row ``x`` (I), ``y`` (O) of a frame; once all rows are in use it replaces a random one."""
        if self.stored < self.capacity:
            self.make_room(self.stored + 1)
            at = self.stored
            self.stored += 1
        else:
            at = int(rng.integers(self.capacity))
            if self._overwritten is not None:
                self._overwritten.setdefault(at, (self.x[at].copy(), self.y[at].copy(), self.age[at]))
        self.x[at], self.y[at], self.age[at] = x, y, frame
        self._newest = [i for i in self._newest if i != at][-(self.recent - 1) :] + [at]

    def batch(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Indices (B) of random rows with the newest among them; B is ``size``, or less while few are stored."""
        rows = rng.integers(self.stored, size=min(size, max(8, self.stored)))
        rows[: len(self._newest)] = self._newest[: len(rows)]
        return rows

    def make_room(self, rows: int = _FIRST_ROWS) -> None:
        """Make sure that so many rows fit."""
        have = len(self.x)
        if rows > have:
            more = max(_FIRST_ROWS, _GROWTH // (4 * max(self.x.shape[1], self.y.shape[1])))
            size = min(self.capacity, max(rows, min(2 * have, have + more)))
            for array in (self.x, self.y, self.age):
                # in place, so that the old rows and the new ones are never both in memory; nothing else refers to them
                array.resize((size, *array.shape[1:]), refcheck=False)

    def fill(self, x: np.ndarray, y: np.ndarray, age: np.ndarray) -> None:
        """Take up the rows of a file, as many as there may be."""
        n = min(len(x), self.capacity)
        self.make_room(n)
        self.x[:n], self.y[:n], self.age[:n] = x[:n], y[:n], age[:n]
        self._hold(n)

    def forget_after(self, frame: int) -> None:
        """Drop the rows that came after a frame."""
        kept = np.flatnonzero(self.age[: self.stored] <= frame)
        self._overwritten = None
        for begin in range(0, len(kept), 256):  # in place: a row is never written before it is read
            rows = kept[begin : begin + 256]
            for array in (self.x, self.y, self.age):
                array[begin : begin + len(rows)] = array[rows]
        self._hold(len(kept))

    def _hold(self, count: int) -> None:
        self.stored = count
        self._newest = [int(i) for i in np.argsort(self.age[:count])[-self.recent :]]

    # -- being saved -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def saving(self) -> Iterator[dict[str, model_file.Rows]]:
        """While it lasts, the three arrays can be read by name as they were when it began.

        Reading raises Changed once rows were dropped, or another saving has begun.
        """
        overwritten: dict[int, tuple[Any, ...]] = {}
        self._overwritten = overwritten
        rows = {}
        arrays: tuple[np.ndarray, ...] = (self.x, self.y, self.age)
        for which, (name, array) in enumerate(zip(NAMES, arrays, strict=True)):
            read = functools.partial(self._rows_then, which, overwritten)
            rows[name] = model_file.Rows((self.stored, *array.shape[1:]), array.dtype, read)
        try:
            yield rows
        finally:
            if self._overwritten is overwritten:
                self._overwritten = None

    def _rows_then(self, which: int, overwritten: dict[int, tuple[Any, ...]], begin: int, end: int) -> np.ndarray:
        if self._overwritten is not overwritten:
            raise Changed("the trainee was reset, undone or saved again meanwhile")
        out: np.ndarray = (self.x, self.y, self.age)[which][begin:end].copy()
        for at, row in overwritten.items():
            if begin <= at < begin + len(out):
                out[at - begin] = row[which]
        return out
