# SPDX-License-Identifier: GPL-3.0-or-later
"""Files are read within a budget and without unpickling, and written whole or not at all.

Every file that a user names is read here. Before anything is allocated it is known that the path is a plain file (a pipe
would block, a device has no end), how many bytes it has, and how much memory its arrays need: a zip member is expanded only
if it was asked for, and only after its header fits its size and the budget.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from .messages import short

LARGEST = 8 << 30
"""[bytes] of a file of arrays, and of the arrays in it."""
LARGEST_TEXT = 1 << 30
"""[bytes] of a motion file."""
LARGEST_JSON = 16 << 20
"""[bytes] of a JSON file."""
EXPANDS_FREELY, EXPANDS = 128 << 20, 16
"""[bytes], and times the size of the file, to which the members of an archive may expand together."""
LONGEST_HEADER = 1 << 16
"""[bytes] of a .npy header."""
TEMPORARY = ".part"
"""Ends the name of a file that is being written: .NAME.PROCESS.part"""
_PIECE = 1 << 20  # [bytes] expanded at once
_LARGEST_READ = (
    4 << 20
)  # [bytes] in one call; only the list of a zip file's members, ours have a few dozen, is read at once
_PREFIX = b"\x93NUMPY"
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


# ---- reading


@contextmanager
def open_file(path: str | os.PathLike[str], what: str, most: int = LARGEST) -> Iterator[BinaryIO]:
    """Open a plain file that should hold ``what`` and has at most ``most`` bytes; never blocks.

    Raises ValueError for folders, pipes, devices and larger files, and where the file changed while it was read; OSError,
    in words and of its own kind, where it cannot be opened.
    """
    path = Path(path)
    try:
        _require_plain(path, what, os.stat(path), most)
        file = open(path, "rb", opener=_opener)  # noqa: SIM115 - closed below
    except OSError as error:
        raise type(error)(f"cannot read {path}: {error.strerror or error}") from None
    with file:
        before = os.fstat(file.fileno())
        _require_plain(path, what, before, most)  # it may be another file by now
        try:
            yield file
        except Exception:
            _require_unchanged(path, file, before)
            raise
        _require_unchanged(path, file, before)


def read_bytes(path: str | os.PathLike[str], what: str, most: int = LARGEST_TEXT) -> bytes:
    """The bytes of a file that should hold ``what``; errors as in :func:`open_file`."""
    with open_file(path, what, most) as file:
        try:
            return file.read(os.fstat(file.fileno()).st_size)
        except OSError as error:
            raise OSError(f"cannot read {path}: {error.strerror or error}") from None


def read_text(path: str | os.PathLike[str], what: str, most: int = LARGEST_JSON) -> str:
    """A UTF-8 file as text, without a byte-order mark; errors as in :func:`open_file`, and ValueError for other encodings."""
    return read_bytes(path, what, most).decode("utf-8-sig")


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # a pipe put there meanwhile does not block


def _require_plain(path: Path, what: str, state: os.stat_result, most: int) -> None:
    if not stat.S_ISREG(state.st_mode):
        kind = next((words for test, words in _KINDS if test(state.st_mode)), "something else")
        raise ValueError(f"{path.name or path}: expected a file of {what}, got {kind}")
    if state.st_size > most:
        raise ValueError(f"{path.name}: expected {what} of at most {megabytes(most)}, got {megabytes(state.st_size)}")


def _require_unchanged(path: Path, file: BinaryIO, before: os.stat_result) -> None:
    after = os.fstat(file.fileno())
    if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise ValueError(f"{path.name}: changed while it was read; try again when it is complete") from None


def megabytes(count: int) -> str:
    """A number of bytes in words."""
    return f"{count / 1e6:,.0f} MB" if count >= 1e6 else f"{count:,} bytes"


def json_of(array: np.ndarray) -> Any:
    """The JSON value whose text an array of a file holds as bytes (N) uint8; ValueError for anything else."""
    if array.dtype != np.uint8 or array.ndim != 1:
        raise ValueError(f"expected the bytes of a JSON text, got {str(array.dtype)[:60]} {array.shape}")
    return parse_json(array.tobytes())


def parse_json(text: str | bytes, constant: Callable[[str], Any] | None = None) -> Any:
    """The value of a JSON text; ``constant`` is called with NaN and infinities, which are read as numbers where it is absent.

    Raises ValueError, in words, for anything else, also for a name twice in one object, of which one would be lost.
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=constant)
    except RecursionError:
        raise ValueError("a JSON text that is nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"expected each name once in a JSON object, got {short(twice)!r} twice; keep one of them")
    return out


# ---- archives of arrays


class _Refused(ValueError):
    """A file that may be sound but is not what is read here."""


class _Readable(Protocol):
    def read(self, count: int = -1, /) -> bytes: ...


class Archive:
    """The arrays of an open npz file, each read when asked for. Made by :func:`open_archive`."""

    def __init__(self, file: BinaryIO) -> None:
        size = os.fstat(file.fileno()).st_size
        self._left = _expands_to(size)
        self._size = size
        self._zip = zipfile.ZipFile(_Limited(file))
        self._members: dict[str, zipfile.ZipInfo] = {}
        for member in self._zip.infolist():
            name = member.filename.removesuffix(".npy")
            if name in self._members:
                raise _Refused(f"two arrays called {name[:60]!r}")
            self._members[name] = member

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all arrays, in the order of the file."""
        return tuple(self._members)

    def read(self, name: str) -> np.ndarray:
        """One array. Raises ValueError or an error of zipfile or zlib where it is damaged or larger than allowed."""
        member = self._members[name]
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{short(name)}: expected a stored or deflated member")
        if member.file_size > self._left:
            raise _Refused(
                f"{short(name)}: expands to {megabytes(member.file_size)} from a file of {megabytes(self._size)}, too much; "
                "if it is sound, save it uncompressed (numpy.savez)"
            )
        self._left -= member.file_size
        with self._zip.open(member) as stream:
            try:
                return _read_npy(stream, member.file_size)
            except _Refused:
                raise
            except ValueError as error:
                raise ValueError(f"{short(name)}: {error}") from None

    def read_all(self, wanted: Collection[str] | None = None) -> dict[str, np.ndarray]:
        """The arrays ``wanted``, as far as they are there; None: all."""
        return {name: self.read(name) for name in self._members if wanted is None or name in wanted}


def may_expand(size: int, arrays: int) -> bool:
    """Whether an archive of ``size`` bytes that expands to ``arrays`` bytes, and to little more, will be read again."""
    return arrays <= _expands_to(size) - EXPANDS_FREELY // 4


def _expands_to(size: int) -> int:
    return min(LARGEST, EXPANDS_FREELY + EXPANDS * size)


class _Limited:
    """A file for zipfile that refuses to read much at once: a list of millions of members."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, count: int = -1) -> bytes:
        if count > _LARGEST_READ:
            raise _Refused("too many members")
        return self._file.read(count)


@contextmanager
def open_archive(path: str | os.PathLike[str], what: str) -> Iterator[Archive]:
    """Open an npz file that should hold ``what``. Nothing is ever unpickled; the budget is that of the module.

    Raises ValueError, in words, for anything else, also where an array read inside is damaged; errors of
    :func:`open_file` besides.
    """
    path = Path(path)
    with open_file(path, what) as file:
        try:
            yield _archive(file)
        except _DAMAGE as error:
            without = "" if str(error) == _EMPTY else " without pickled objects"
            raise ValueError(f"{path.name}: expected {what} (.npz){without}, got {_reason(error)}") from None


def _archive(file: BinaryIO) -> Archive:
    begin = _beginning(file)
    if begin == _PREFIX:
        raise _Refused("a single array (.npy), not an archive")
    if not begin.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        raise _Refused(_OTHER_KIND)
    return Archive(file)


def _beginning(file: BinaryIO) -> bytes:
    if not os.fstat(file.fileno()).st_size:  # also the files of /proc, some of which block when read
        raise _Refused(_EMPTY)
    return file.read(len(_PREFIX))


def read_archive(path: Path, what: str, wanted: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """The arrays ``wanted`` of an npz file that should hold ``what``, as far as they are there; None: all.

    Members that are not wanted are not expanded. Errors as in :func:`open_archive`.
    """
    with open_archive(path, what) as archive:
        return archive.read_all(wanted)


def read_record(path: Path, what: str) -> dict[str, np.ndarray]:
    """The arrays of an npz file, or the fields of a single record (.npy). Empty for any other array.

    Errors as in :func:`open_archive`.
    """
    with open_file(path, what) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            if _beginning(file) != _PREFIX:
                file.seek(0)
                return _archive(file).read_all()
            file.seek(0)
            record = _read_npy(file, size)
        except _DAMAGE as error:
            raise ValueError(f"{path.name}: expected {what}, got {_reason(error)}") from None
        return {name: record[name] for name in record.dtype.names or () if record.shape == ()}


def _read_npy(stream: _Readable, size: int) -> np.ndarray:
    """One array from a stream of exactly ``size`` bytes, which are not read before the header fits them."""
    begin = stream.read(8)
    version = begin[6:8]
    width = {b"\x01\x00": 2, b"\x02\x00": 4, b"\x03\x00": 4}.get(version)
    if begin[:6] != _PREFIX or width is None:
        raise ValueError("no NumPy array")
    length = int.from_bytes(stream.read(width), "little")
    if length > min(LONGEST_HEADER, size):
        raise ValueError(f"a header of {length:,} bytes")
    dtype, shape, fortran = _header(stream.read(length).decode("utf-8" if version == b"\x03\x00" else "latin-1"))
    count = prod(shape)
    if dtype.itemsize <= 0 or prod(max(n, 1) for n in shape) * dtype.itemsize > max(size, _PIECE):
        raise ValueError(f"an array of shape {str(shape)[:60]} and type {str(dtype)[:60]} in {size:,} bytes")
    wanted = count * dtype.itemsize
    if 8 + width + length + wanted != size:
        raise ValueError(f"{size - 8 - width - length:,} bytes where its header says {wanted:,}")
    out = np.empty(wanted, np.uint8)
    at = 0
    while at < wanted:
        piece = stream.read(min(_PIECE, wanted - at))
        if not piece:
            raise ValueError("an array that ends early")
        out[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
        at += len(piece)
    stream.read(1)  # where there is a checksum, it is compared at the end
    array = out.view(dtype) if wanted else np.empty(0, dtype)
    return array.reshape(shape[::-1]).T if fortran else array.reshape(shape)


def _header(text: str) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    """Type, shape and order of a .npy header."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of strings with odd backslashes
            head = ast.literal_eval(text.strip("\x00 \n"))
        descr, shape, fortran = head["descr"], head["shape"], head["fortran_order"]
        dtype = np.lib.format.descr_to_dtype(descr)
    except (SyntaxError, ValueError, TypeError, KeyError, IndexError, RecursionError, MemoryError, OverflowError):
        raise ValueError("a header that is no NumPy array's") from None
    if dtype.hasobject:
        raise _Refused("pickled content, which is refused unopened")
    sound = isinstance(shape, tuple) and len(shape) <= 32 and all(type(n) is int and n >= 0 for n in shape)
    if not sound or type(fortran) is not bool:
        raise ValueError("a header that is no NumPy array's")
    return dtype, shape, fortran


_EMPTY = "an empty file"
_OTHER_KIND = "a file of another kind, or pickled content, which is refused unopened"
_DAMAGE = (
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    RuntimeError,  # a member that needs a password; NotImplementedError is one too
    OSError,  # a member at a place that no file has
    KeyError,
    OverflowError,
    MemoryError,
)
"""What zipfile, zlib and NumPy raise for damaged files."""


def _reason(error: Exception) -> str:
    text = str(error).split("\n")[0]
    return text if isinstance(error, _Refused) else f"a damaged file ({text or type(error).__name__})"


# ---- writing


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
def whole_file(
    path: str | os.PathLike[str], folder: Path | None = None, put: Callable[[Path, Path], object] | None = None
) -> Iterator[BinaryIO]:
    """A file to write to that appears at ``path`` when the block ends without an error, and not at all otherwise.

    It is written under a temporary name, in ``folder`` (on the same disk) or beside ``path``, and then renamed. A link
    stays a link: the file it leads to is replaced. A pipe or device (/dev/null) is written to and never replaced.
    Missing folders are made, and temporary files that a killed process left for the same ``path`` are removed. The disk is
    waited for first: a name whose bytes are not on it yet would be an empty file after a power cut. OSError names the path
    and says that nothing was changed there. ``put(temporary, path)`` may choose another name; None renames.
    """
    named = path = Path(path)
    if _is_stream(path):
        try:
            with tempfile.TemporaryFile() as file:  # which, unlike a pipe, writers may go back in
                yield file
                file.seek(0)
                with open(path, "wb") as stream:
                    shutil.copyfileobj(file, stream)
        except OSError as error:
            raise OSError(f"cannot write {named}: {error.strerror or error}") from None
        return
    if path.is_symlink():
        path = Path(os.path.realpath(path))
    make_folder(path.parent)
    remove_leftovers(path)
    temporary = temporary_path(path, folder)
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        (put or os.replace)(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(f"cannot write {named}: {error.strerror or error}; nothing was changed there") from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


_WINDOWS = os.name == "nt"
_RESERVED = re.compile(r"(con|prn|aux|nul|com[1-9]|lpt[1-9])( *\..*)?", re.IGNORECASE)


def require_name(path: Path) -> None:
    """On Windows, raise ValueError for a file name that it keeps for devices, such as aux.npz: what is written there is lost."""
    if _WINDOWS and _RESERVED.fullmatch(path.name):
        raise ValueError(f"expected another file name than {path.name}: Windows keeps {path.stem.upper()} for a device")


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, where they are missing; OSError in words."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"cannot make the folder {folder}: {error.strerror or error}; choose another place") from None


def temporary_path(path: Path, folder: Path | None = None) -> Path:
    """Where this process writes a file before it is renamed to ``path``: in ``folder``, or beside it."""
    return (folder or path.parent) / f".{path.name}.{os.getpid()}{TEMPORARY}"


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files of processes that were killed while they wrote ``path``. Other files are left alone."""
    pattern = re.compile(re.escape(f".{path.name}.") + r"(\d+)" + re.escape(TEMPORARY))
    with suppress(OSError), os.scandir(path.parent) as inside:
        for entry in inside:
            found = pattern.fullmatch(entry.name)
            if found and not is_running(int(found[1])) and entry.is_file(follow_symlinks=False):
                with suppress(OSError):
                    os.unlink(entry.path)


def is_running(process: int) -> bool:
    """Whether there is a process of this number on this computer."""
    if sys.platform == "win32":
        import ctypes

        kernel = ctypes.windll.kernel32
        handle = kernel.OpenProcess(0x1000, False, process)  # PROCESS_QUERY_LIMITED_INFORMATION
        if not handle:
            return False
        code = ctypes.c_ulong()
        kernel.GetExitCodeProcess(handle, ctypes.byref(code))
        kernel.CloseHandle(handle)
        return code.value == 259  # STILL_ACTIVE
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # somebody else's
        return True
    return True
