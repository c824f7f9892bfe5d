# SPDX-License-Identifier: GPL-3.0-or-later
"""The file that a taught rig is kept in, shared with other programs that may teach the same rig.

Two servers, or two Blenders, may use one folder. Each remembers what was in a file when it read or wrote it last, and
replaces nothing else: where another program has saved meanwhile, what was taught here is written beside it.
"""

from __future__ import annotations

import os
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .trainee import Trainee

LOCKED_SECONDS = 0.25
"""[s] to wait for another program that is just replacing a file; that takes it about a millisecond."""
_MOST_LISTED = 256  # members of an archive; a trainee has about twenty


class KeptFile:
    """Where one trainee is kept; ``path`` None keeps nothing. Everything but saving leaves the disk as it is."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        """Changes to a name beside it once another program has saved under the first one."""
        self.saved_at = 0
        """Frames that the trainee had seen when it was read or saved last."""
        self.note = ""
        """Why it is kept beside, in words, and what to do; empty where it is not."""
        self.seen = contents(path)
        """What was in the file when it was read or saved last."""

    def changed(self, trainee: Trainee) -> bool:
        """Whether the trainee has learned since it was read or saved last. What nobody has taught never has."""
        return trainee.frames not in (0, self.saved_at)

    def outdated(self, trainee: Trainee) -> bool:
        """Whether another program has saved more meanwhile, and the trainee holds nothing that is not on disk."""
        return not self.changed(trainee) and contents(self.path) not in ("", self.seen)

    def load(self, trainee: Trainee) -> None:
        """Read the file, as ``Trainee.load`` does, and with its errors."""
        assert self.path is not None
        self.seen = contents(self.path)  # first: what another program saves from now on is not what is read
        trainee.load(self.path)
        self.saved_at = trainee.frames

    def save(self, trainee: Trainee) -> None:
        """Write the file now. Raises OSError."""
        for _ in self.save_in_pieces(trainee):
            pass

    def save_in_pieces(self, trainee: Trainee) -> Iterator[bool]:
        """The same in small pieces; values and errors as of ``Trainee.save_in_pieces``."""
        assert self.path is not None
        frames, before = trainee.frames, self.saved_at
        yield from trainee.save_in_pieces(self.path, put=self._put)
        if self.saved_at == before:  # otherwise it was reset or undone meanwhile
            self.saved_at = frames

    def remove(self) -> str:
        """Delete the file; returns why it is left, in words, where another program has saved it since. Raises OSError."""
        if self.path is None or not self.path.parent.exists():
            return ""
        with alone_in(self.path.parent):
            if contents(self.path) not in ("", self.seen):
                return (
                    f"another program has saved {self.path.name} since it was read here, so the file is left as it is; do the "
                    "same again to delete that too"
                )
            self.path.unlink(missing_ok=True)
            self.seen = ""
        return ""

    def _put(self, temporary: Path, path: Path) -> None:
        """Rename a file that is written to ``path``, or beside it where that holds what was never seen here."""
        with alone_in(path.parent):
            free = contents(path) in ("", self.seen)
            place = path if free else unused(path, "beside")
            os.replace(temporary, place)
            self.path, self.seen = place, contents(place)
        if not free:
            self.note = (
                f"another program has saved {path.name} since it was read here; that is left as it is, and what was taught "
                f"here is in {place.name} in the same folder. To use this one, end both programs and rename it to {path.name}"
            )


def contents(path: Path | None) -> str:
    """What is in an archive: the names and checksums of its members, in a few letters; empty where there is no file.

    Only the list of members is read. A file that is no archive counts by its size and time.
    """
    if path is None:
        return ""
    try:
        state = os.stat(path)
    except OSError:
        return ""
    with suppress(Exception):  # whatever is in the file
        if path.is_file():
            with zipfile.ZipFile(path) as archive:
                members = archive.infolist()
                if len(members) <= _MOST_LISTED:
                    return " ".join(f"{m.filename}:{m.CRC:x}" for m in members)
    return f"{state.st_size} bytes of {state.st_mtime_ns}"


def unused(path: Path, why: str) -> Path:
    """A name like ``NAME.why`` beside ``path`` that is not in use; it does not count as a rig's. Raises FileExistsError."""
    names = (path.with_name(f"{path.stem}.{why}{'' if n == 1 else f'-{n}'}") for n in range(1, 1000))
    found = next((name for name in names if not os.path.lexists(name)), None)
    if found is None:
        raise FileExistsError("a thousand files were set aside already")
    return found


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """While inside, no other program is inside for the same folder. A program that is killed leaves no lock behind.

    Raises BlockingIOError where one is for longer than ``LOCKED_SECONDS``. A disk without locks is used without.
    """
    end = time.monotonic() + LOCKED_SECONDS
    while True:
        try:
            descriptor = _lock(folder)
            break
        except (BlockingIOError, FileExistsError, PermissionError):
            if time.monotonic() > end:
                raise BlockingIOError("another program is saving there; try again") from None
            time.sleep(0.005)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _lock(folder: Path) -> int | None:
    """An open file that is the lock until it is closed, None where the disk has none; OSError where another holds it."""
    if sys.platform == "win32":  # the system removes it when it is closed, or its program has ended
        return os.open(folder / ".lock", os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_TEMPORARY)
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
