# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert many files: one at a time in this process, or several at a time in worker processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from .conversion import import_file
from .options import ImportOptions
from .parts import load_report
from .reports import FileReport


def convert_files(
    files: Sequence[Path], parts: Sequence[Path], options: ImportOptions, jobs: int
) -> Iterator[tuple[FileReport, bool]]:
    """Convert each of ``files`` to its part, ``jobs`` at a time; yields, in order, the report and whether it was cached.

    Parts that an earlier run completed are not converted again. Raises OSError where a part cannot be written.
    """
    cached = {n: report for n, part in enumerate(parts) if part.exists() and (report := load_report(part)) is not None}
    todo = [n for n in range(len(files)) if n not in cached]
    if jobs <= 1 or len(todo) < 2:
        for n, (path, part) in enumerate(zip(files, parts, strict=True)):
            yield (cached[n], True) if n in cached else (import_file(path, options, part), False)
        return
    results = _worker_pool(files, parts, options, todo, min(jobs, len(todo)))
    fresh: dict[int, FileReport] = {}
    for n in range(len(files)):
        if n in cached:
            yield cached[n], True
            continue
        while n not in fresh:
            number, report = next(results)
            fresh[number] = report
        yield fresh.pop(n), False


def _worker_pool(
    files: Sequence[Path], parts: Sequence[Path], options: ImportOptions, todo: Sequence[int], jobs: int
) -> Iterator[tuple[int, FileReport]]:
    """Reports of the files ``todo`` as they are done, in any order.

    Each worker process converts one file at a time. If a worker dies, its file is reported as refused and a new worker
    replaces it.
    """
    start = multiprocessing.get_context("spawn")
    waiting = list(todo)[::-1]
    workers: dict[Connection, tuple[Any, int]] = {}

    def start_worker() -> None:
        ours, theirs = start.Pipe()
        process = start.Process(target=_work, args=(theirs, options), daemon=True)
        process.start()
        theirs.close()
        send_file(ours, process)

    def send_file(connection: Connection, process: Any) -> None:
        n = waiting.pop()
        workers[connection] = (process, n)
        connection.send((n, str(files[n]), str(parts[n])))

    try:
        for _ in range(jobs):
            start_worker()
        while workers:
            for connection in wait(list(workers)):
                assert isinstance(connection, Connection)
                process, n = workers.pop(connection)
                try:
                    number, report = connection.recv()
                except (EOFError, OSError):
                    connection.close()
                    process.join()
                    reason = f"{files[n].name}: the worker ended with code {process.exitcode}, perhaps out of memory"
                    yield n, FileReport(str(files[n]), False, reason=reason)
                    if waiting:
                        start_worker()
                    continue
                if waiting:
                    send_file(connection, process)
                else:
                    connection.close()
                yield number, report
    finally:
        for connection, (process, _) in workers.items():
            connection.close()
            process.terminate()


def _work(connection: Connection, options: ImportOptions) -> None:
    """Convert the files received over ``connection`` until it closes, which also happens when the parent process ends."""
    try:
        while True:
            number, path, part = connection.recv()
            connection.send((number, import_file(Path(path), options, Path(part))))
    except (EOFError, OSError, KeyboardInterrupt):
        return
