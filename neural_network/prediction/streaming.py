# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows of frames from more files than fit in memory: a few files at a time, each giving way to the next by count.

A file is one take: its frames as rows of features, of whatever kind (:func:`write`). :func:`windows` deals the files in random
order, one permutation after another, and holds ``files`` of them, from which it draws. The oldest gives way when each of its
windows has been served as often as those of any other file, on average ``refresh`` windows after it came: so every window of
every file is as likely as any other. Windows of few files at a time resemble each other, which costs learning: with 10 files
and 10,000 windows the loss is a quarter higher than with all in memory, with the settings here within a hundredth
(``benchmarks/streaming.py``). What is served depends on the seed and on the number of windows served, never on the clock.
"""

from __future__ import annotations

import io
import multiprocessing
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from ..core.files import read_archive, write_whole
from ..core.messages import counted
from ..motion.tasks import guess_task

WHAT = "frames to stream"

Stages = tuple[tuple[int, tuple[str, ...]], ...]
"""(from how many windows served, kinds of takes dealt), in order; no kinds: all."""


@dataclass(frozen=True)
class Source:
    """One file, known without its rows."""

    path: Path
    frames: int
    width: int
    """Numbers in a row."""
    kind: str
    """See :func:`kind_of`."""


@dataclass(frozen=True)
class Streaming:
    """What is served."""

    window: int = 64
    """Frames in a window."""
    batch: int = 128
    """Windows in a batch."""
    files: int = 64
    """Files in memory at a time."""
    refresh: int = 5000
    """Windows served, on average, until every file in memory has given way."""
    seed: int = 0
    stages: Stages = ()
    """A curriculum; none: all kinds from the beginning."""


def kind_of(name: str) -> str:
    """What a take's name says it is: "walk", "run", or one of the tasks of ``motion.tasks``, such as "jump"."""
    task = guess_task(name)
    if task != "locomotion":
        return task
    return "run" if any(word in name.lower() for word in ("run", "jog", "sprint")) else "walk"


def curriculum(windows: int, kinds: Sequence[str] = ("walk", "run", "jump")) -> Stages:
    """Stages over the first ``windows``, of equal length: the first kind, the first two, and so on; then everything."""
    each = windows // max(1, len(kinds))
    grown = tuple((i * each, tuple(kinds[: i + 1])) for i in range(len(kinds)))
    return (*grown, (windows, ()))


def write(path: Path, rows: np.ndarray, kind: str) -> None:
    """Write one take, ``rows`` (F, D), as float32, whole or not at all; not compressed, so that it is read at once."""
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise ValueError(f"{path.name}: expected finite rows (frames, numbers), got {rows.shape}")
    buffer = io.BytesIO()
    np.savez(buffer, shape=np.array(rows.shape), kind=np.array(kind), rows=rows.astype(np.float32))
    write_whole(path, buffer.getvalue())


def source(path: Path) -> Source:
    """Look at a file that :func:`write` wrote, without reading its rows; ValueError where it is none."""
    about = read_archive(path, WHAT, ("shape", "kind"))
    if (
        len(about) < 2
        or about["shape"].shape != (2,)
        or about["shape"].dtype.kind != "i"
        or about["kind"].dtype.kind != "U"
    ):
        raise ValueError(f"{path.name}: expected {WHAT}, got another npz file; write it by streaming.write")
    frames, width = about["shape"].tolist()
    return Source(path, frames, width, str(about["kind"]))


def usable(sources: Sequence[Source], settings: Streaming) -> tuple[Source, ...]:
    """Those of ``sources`` with at least one window; ValueError where there is none, or where rows differ in width."""
    found = tuple(s for s in sources if s.frames >= settings.window)
    if not found:
        raise ValueError(
            f"expected a take of at least {counted(settings.window, 'frame')} in {counted(len(sources), 'file')}"
        )
    other = next((s for s in found if s.width != found[0].width), None)
    if other is not None:
        raise ValueError(
            f"{other.path.name}: expected {found[0].width} numbers in a row as in {found[0].path.name}, got {other.width}"
        )
    return found


def windows(sources: Sequence[Source], settings: Streaming = Streaming()) -> Iterator[np.ndarray]:
    """Batches (batch, window, D) float32 without end. Each is an array of its own."""
    dealer = _Dealer(usable(sources, settings), settings)
    pool: deque[np.ndarray] = deque()
    served, worn, length = 0, 0.0, settings.window
    flat, begins = _joined(pool, length)
    while True:
        life = settings.refresh / (
            settings.files * dealer.mean
        )  # times that each window is served while its file stays
        old = int(worn * settings.files / life)
        worn -= old * life / settings.files
        for _ in range(min(old, settings.files) if pool else settings.files):
            pool.append(dealer.next(served))
            begins = begins[:0]
        while len(pool) > settings.files:
            pool.popleft()
        if not len(begins):
            flat, begins = _joined(pool, length)
        width = pool[0].shape[1]
        blocks = np.lib.stride_tricks.sliding_window_view(flat, length * width)
        drawn = begins[dealer.rng.integers(0, len(begins), settings.batch)]
        yield blocks[drawn * width].reshape(settings.batch, length, width)
        served += settings.batch
        worn += settings.batch / len(begins)


def _joined(pool: deque[np.ndarray], length: int) -> tuple[np.ndarray, np.ndarray]:
    """All rows in one vector, and the row at which each window begins."""
    begins, at = [np.zeros(0, np.int64)], 0
    for rows in pool:
        begins.append(np.arange(at, at + len(rows) - length + 1))
        at += len(rows)
    return np.concatenate([np.zeros(0, np.float32), *(rows.reshape(-1) for rows in pool)]), np.concatenate(begins)


class _Dealer:
    """Deals files in random order, all that the stage admits before any comes again."""

    def __init__(self, sources: Sequence[Source], settings: Streaming) -> None:
        self.sources, self.stages = sources, settings.stages or ((0, ()),)
        self.settings, self.rng = settings, np.random.default_rng(settings.seed)
        self.stage = -1
        self.waiting: list[int] = []
        self.admitted: list[int] = []
        self.mean = self._enter(0)

    def _enter(self, served: int) -> float:
        """Begin the stage after so many windows served; returns how many windows its files have on average."""
        self.stage = sum(served >= begin for begin, _ in self.stages) - 1
        kinds = self.stages[max(0, self.stage)][1]
        self.admitted = [i for i, s in enumerate(self.sources) if not kinds or s.kind in kinds]
        self.waiting = []
        if not self.admitted:
            of = counted(len(self.sources), "file")
            raise ValueError(f"expected a take of {' or '.join(kinds)} among {of}, got none")
        return float(np.mean([self.sources[i].frames - self.settings.window + 1 for i in self.admitted]))

    def next(self, served: int) -> np.ndarray:
        """The rows of the next file after so many windows served."""
        if sum(served >= begin for begin, _ in self.stages) - 1 != self.stage:
            self.mean = self._enter(served)
        if not self.waiting:
            self.waiting = self.rng.permutation(self.admitted).tolist()
        found = self.sources[self.waiting.pop()]
        rows = read_archive(found.path, WHAT, ("rows",)).get("rows")
        if rows is None or rows.shape != (found.frames, found.width) or rows.dtype != np.float32:
            raise ValueError(
                f"{found.path.name}: expected {found.frames} x {found.width} float32 rows; write the file again"
            )
        return rows


# ---- several processes


def windows_of_workers(sources: Sequence[Source], settings: Streaming, workers: int) -> Iterator[np.ndarray]:
    """:func:`windows`, made by ``workers`` processes, a batch from each in turn; 0: in this process.

    Each has its share of the files, in memory too, and a seed of its own. The same number of workers serves the same batches.
    """
    found = usable(sources, settings)
    workers = min(workers, len(found), settings.files)
    if workers < 1:
        yield from windows(found, settings)
        return
    start = multiprocessing.get_context("spawn")
    running: list[tuple[Connection, Any]] = []
    shape = (settings.batch, settings.window, found[0].width)
    try:
        for i in range(workers):
            own = replace(
                settings,
                files=settings.files // workers,
                refresh=settings.refresh // workers,
                seed=settings.seed * workers + i,
                stages=tuple((begin // workers, kinds) for begin, kinds in settings.stages),
            )
            ours, theirs = start.Pipe(duplex=False)
            process = start.Process(target=_serve, args=(theirs, _share(found, i, workers), own), daemon=True)
            process.start()
            theirs.close()
            running.append((ours, process))
        while True:
            for connection, _ in running:
                try:
                    yield np.frombuffer(connection.recv_bytes(), np.float32).reshape(shape)
                except EOFError:
                    raise ValueError("a process that reads windows ended; run it without workers to see why") from None
    finally:
        for connection, process in running:
            connection.close()
            process.terminate()
            process.join()


def _share(sources: Sequence[Source], worker: int, workers: int) -> tuple[Source, ...]:
    """Every kind is dealt round, so that each worker has some of each where there are enough."""
    by_kind = sorted(sources, key=lambda s: s.kind)
    return tuple(by_kind[worker::workers])


def _serve(connection: Connection, sources: Sequence[Source], settings: Streaming) -> None:
    """Send batches until nobody takes them any more."""
    with suppress(BrokenPipeError, ConnectionError, KeyboardInterrupt):
        for batch in windows(sources, settings):
            connection.send_bytes(batch.data)
