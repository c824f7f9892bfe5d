# SPDX-License-Identifier: GPL-3.0-or-later
"""The import as a whole: convert every file, then write the data."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...core.files import make_folder
from ...core.messages import counted
from .options import DEFAULTS, ImportOptions, check
from .parts import part_name
from .reports import ImportProgress, WrittenFile
from .workers import convert_files
from .writing import write_all


def run(
    files: Sequence[Path], output: str | Path, options: ImportOptions = DEFAULTS, jobs: int = 1
) -> Iterator[ImportProgress | WrittenFile]:
    """Import ``files`` into ``output``; yields an ImportProgress for each file, in order, then a WrittenFile for each npz.

    One skeleton gives ``output`` itself; several give one file each, named after it and their first clip. Closing the
    generator (or killing the process) at any moment keeps the parts that are done, in a folder beside the output called
    ``.NAME.parts``; the next run with the same files and options continues from there. Raises ValueError for options out
    of range and if no file gave a clip, OSError if the output cannot be written.
    """
    check(options)
    output = Path(output)
    folder = output.with_name(f".{output.name}.parts")
    make_folder(folder)
    parts = [folder / f"{part_name(path, options)}.npz" for path in files]
    with_clips: list[tuple[Path, str, int]] = []
    first_reason = ""
    for n, (report, cached) in enumerate(convert_files(files, parts, options, jobs)):
        first_reason = first_reason or report.reason
        if report.kept:
            with_clips.append((parts[n], report.path, len(report.clips)))
        yield ImportProgress(n + 1, len(files), report, cached)
    if not with_clips:
        _remove(folder)
        raise ValueError(f"no clip in {counted(len(files), 'file')}; the first reason: {first_reason}")
    yield from write_all(with_clips, output, folder, options)
    _remove(folder)


def _remove(folder: Path) -> None:
    """Remove the folder of the parts, also of those that a killed run left; a file of anybody else's stays, and the folder too."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if _OURS.fullmatch(path.name):
                path.unlink()
        folder.rmdir()


_OURS = re.compile(r"[0-9a-f]{24}\.npz|\..*\.\d+\.part")
