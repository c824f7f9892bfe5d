# SPDX-License-Identifier: GPL-3.0-or-later
"""Files are read without unpickling and written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np


def read_archive(path: Path, what: str) -> dict[str, np.ndarray]:
    """Every array of an npz file that should hold ``what``. Nothing is unpickled. Raises ValueError for a damaged file."""
    if path.is_file() and path.stat().st_size == 0:
        raise ValueError(f"{path.name}: expected {what} (.npz), got an empty file")
    try:
        with open(path, "rb") as file:  # given a path, NumPy leaves a damaged file open
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("a single array (.npy), not an archive")
            return {name: archive[name] for name in archive.files}
    except Exception as error:  # zipfile, zlib and NumPy raise many kinds for damaged files
        raise ValueError(f"{path.name}: expected {what} (.npz) without pickled objects, got {_reason(error)}") from None


def keep_apart(read: dict[str, Path | None], written: dict[str, Path | None]) -> None:
    """Raise ValueError if a file to write is also a file to read, or is to be written twice.

    Keys name the files in messages; None stands for no file. Pipes and devices such as /dev/null may be shared.
    """
    known = [(what, path) for what, path in read.items() if path is not None]
    for what, path in written.items():
        if path is None or _is_stream(path):
            continue
        for other, there in known:
            if _same(path, there):
                raise ValueError(f"{what}: expected another file than for {other}, got {path} for both")
        known.append((what, path))


def _same(a: Path, b: Path) -> bool:
    try:
        return a.samefile(b)  # links, and other spellings where letter case does not count
    except OSError:  # one of them does not exist yet
        return os.path.realpath(a) == os.path.realpath(b)


def _is_stream(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write ``data`` to ``path`` whole or not at all; the rest as in :func:`whole_file`."""
    with whole_file(path) as file:
        file.write(data)


@contextmanager
def whole_file(path: str | os.PathLike[str], folder: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write to that appears at ``path`` when the block ends without an error, and not at all otherwise.

    It is written under a temporary name, in ``folder`` (on the same disk) or beside ``path``, and then renamed. A link
    stays a link: the file it leads to is replaced. A pipe or device (/dev/null) is written to and never replaced.
    Missing folders are made. OSError names the path and says that nothing was changed there.
    """
    named = path = Path(path)
    if _is_stream(path):
        try:
            with open(path, "wb") as file:
                yield file
        except OSError as error:
            raise OSError(f"cannot write {named}: {error.strerror or error}") from None
        return
    if path.is_symlink():
        path = Path(os.path.realpath(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"cannot make the folder {path.parent}: {error.strerror or error}; choose another place"
        ) from None
    temporary = (folder or path.parent) / f".{path.name}.{os.getpid()}.part"
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(f"cannot write {named}: {error.strerror or error}; nothing was changed there") from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _reason(error: Exception) -> str:
    text = str(error).split("\n")[0]
    if "object arrays" in text.lower():
        return "pickled content, which is refused unopened"
    if "pickle" in text.lower():  # NumPy takes every unknown format for pickled
        return "a file of another kind, or pickled content, which is refused unopened"
    if isinstance(error, ValueError) and "single array" in text:
        return text
    return f"a damaged or different file ({text or type(error).__name__})"
