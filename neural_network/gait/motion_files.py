# SPDX-License-Identifier: GPL-3.0-or-later
"""Motion files: cycles of a teacher, as npz files that are read in turn, and raw ones that are refined first.

A motion file holds ``motions`` (N, 60, 101) and ``params`` (N, P): two cycles of 30 samples each, as :mod:`.representation`
writes them. A raw one holds ``motions`` (N, F, 101) of any rate, ``lengths`` (N), the samples of each that count, and
``phases`` (N, F) of each sample [rad]; :func:`refined` puts them on the 60 samples.
"""

from __future__ import annotations

import hashlib
import io
import json
import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from multiprocessing.connection import wait
from pathlib import Path

import numpy as np

from ..core.files import read_archive, write_whole
from . import curves, draws, parameters
from .representation import CYCLE, ROWS, SIZE
from .teacher import KinematicTeacher, Model

PER_FILE = 500
"""Cycles in one file."""
VERSION = 6  # of what the teacher teaches: files of another version are not read
LOOK_SECONDS = 0.5  # between looks at what the writing processes have done
RAW_LEAST = 140
"""Samples that a raw motion must have."""


def key_of(model: Model, seed: int) -> str:
    """Short hash of a teacher's model and a seed: files of another one are not read."""
    digest = hashlib.sha256(f"{seed} {parameters.NAMES} {VERSION}".encode())
    for part in (model.walk, model.run):
        for name, array in sorted(asdict(part).items()):
            digest.update(name.encode() + np.asarray(array, np.float64).round(6).tobytes())
    digest.update(np.r_[model.offsets, model.late, model.run_off].round(6).tobytes())
    return digest.hexdigest()[:12]


def generate(folder: Path, model: Model, count: int, seed: int, jobs: int = 1) -> Iterator[tuple[int, int]]:
    """Write motion files of at least ``count`` cycles into ``folder``, those that are missing; yields (files done, of).

    ``jobs`` processes share the work. Raises OSError where one of them ends before its work is done.
    """
    names = paths(folder, model, count, seed)
    todo = [(i, path) for i, path in enumerate(names) if not path.exists()]
    done = len(names) - len(todo)
    yield done, len(names)
    tasks = [(str(path), model, seed, i) for i, path in todo]
    if jobs <= 1 or len(tasks) < 2:
        for task in tasks:
            _write(task)
            done += 1
            yield done, len(names)
        return
    start, jobs = multiprocessing.get_context("spawn"), min(jobs, len(tasks))
    writers = [start.Process(target=_write_all, args=(tasks[i::jobs],), daemon=True) for i in range(jobs)]
    try:
        for writer in writers:
            writer.start()
        while any(writer.is_alive() for writer in writers):
            wait([writer.sentinel for writer in writers if writer.is_alive()], LOOK_SECONDS)
            if (now := sum(path.exists() for path in names)) > done:
                done = now
                yield done, len(names)
    finally:
        for writer in writers:
            if writer.is_alive():
                writer.terminate()
    if codes := [writer.exitcode for writer in writers if writer.exitcode]:
        raise OSError(f"a process that writes motion files ended with code {codes[0]}, perhaps out of memory or disk")
    if (now := sum(path.exists() for path in names)) > done:
        yield now, len(names)


def _write_all(tasks: Sequence[tuple[str, Model, int, int]]) -> None:
    for task in tasks:
        _write(task)


def paths(folder: Path, model: Model, count: int, seed: int) -> list[Path]:
    """The files of :func:`generate`, sorted."""
    key = key_of(model, seed)
    return [folder / f"gait_{key}_{i:04d}.npz" for i in range(-(-count // PER_FILE))]


def _write(task: tuple[str, Model, int, int]) -> None:
    path, model, seed, number = task
    if not Path(path).parent.is_dir():  # known before the cycles are made, not after
        raise NotADirectoryError(f"{Path(path).parent}: expected a folder for motion files")
    values = draws.draw(np.random.default_rng([seed, 7, number]), PER_FILE)
    teacher = KinematicTeacher(model)
    motions = np.stack([teacher.motion(v) for v in values]).astype(np.float32)
    save(Path(path), motions, values.astype(np.float32), teacher.metadata())


def save(path: Path, motions: np.ndarray, params: np.ndarray, metadata: dict[str, object]) -> None:
    """Write one motion file, whole or not at all."""
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(metadata, sort_keys=True).encode(), np.uint8)
    np.savez_compressed(buffer, motions=motions, params=params, metadata=text)
    write_whole(path, buffer.getvalue())


def load(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """``motions`` (N, 60, 101) and ``params`` (N, P) of a motion file; ValueError with the reason for any other."""
    found = read_archive(path, "gait motions", ("motions", "params"))
    if set(found) != {"motions", "params"}:
        raise ValueError(f"{path.name}: expected motions and params, got {', '.join(found) or 'neither'}")
    motions, params = found["motions"], found["params"]
    size = len(parameters.NAMES)
    if motions.ndim != 3 or motions.shape[1:] != (ROWS, SIZE) or params.shape != (len(motions), size):
        raise ValueError(
            f"{path.name}: expected motions (N, {ROWS}, {SIZE}) and params (N, {size}), got {motions.shape} and {params.shape}"
        )
    if not (np.isfinite(motions).all() and np.isfinite(params).all()):
        raise ValueError(f"{path.name}: expected finite numbers, got NaN or infinity")
    return motions, params


def stream(files: Sequence[Path]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The contents of motion files, sorted by name, one file in memory at a time."""
    for path in sorted(files):
        yield load(path)


def refined(
    motions: np.ndarray, lengths: np.ndarray, phases: np.ndarray
) -> tuple[np.ndarray, np.ndarray, dict[str, int]]:
    """Raw motions on the 60 samples of two cycles: (M, 60, 101), which rows of the input they are (M), and counts of the others.

    Args:
        motions: (N, F, 101) samples in time.
        lengths: (N) how many of them count.
        phases: (N, F) [rad], wrapped or not.

    The phase is unwrapped and must grow; the first two whole cycles are taken. Left out, and counted: "too short", under
    140 samples; "not 60", under two cycles or a phase that goes back; "load failed", numbers that are none.
    """
    kept, rows = [], []
    counts = {"load failed": 0, "too short": 0, "not 60": 0}
    for i, (motion, length) in enumerate(zip(motions, lengths, strict=True)):
        length = int(length)
        if not np.isfinite(motion[:length]).all() or not np.isfinite(phases[i, :length]).all():
            counts["load failed"] += 1
            continue
        if length < RAW_LEAST:
            counts["too short"] += 1
            continue
        phase = np.unwrap(phases[i, :length]) / (2 * np.pi)
        first = np.ceil(phase[0])
        wanted = first + np.arange(ROWS) / CYCLE
        if (np.diff(phase) <= 0).any() or wanted[-1] > phase[-1]:
            counts["not 60"] += 1
            continue
        kept.append(np.stack([np.interp(wanted, phase, motion[:length, c]) for c in range(motion.shape[1])], axis=1))
        rows.append(i)
    shape = (len(kept), ROWS, motions.shape[2])
    return np.array(kept).reshape(shape), np.array(rows, int), counts


def smoothed(motion: np.ndarray, phase: np.ndarray) -> np.ndarray:
    """The 101 numbers (N, 101) at phases (N) [cycles] of a motion (60, 101), through its Fourier series."""
    return np.asarray(
        curves.basis(np.mod(phase, 1), CYCLE // 2 - 1) @ curves.coefficients(motion[:CYCLE], CYCLE // 2 - 1)
    )
