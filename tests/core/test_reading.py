# SPDX-License-Identifier: GPL-3.0-or-later
"""The one place where files are read: what is no plain file is refused at once, and no array is larger than it may be."""

from __future__ import annotations

import io
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neural_network.core import files
from neural_network.core.files import (
    json_of,
    open_file,
    parse_json,
    read_archive,
    read_bytes,
    read_record,
    read_text,
    remove_leftovers,
    write_whole,
)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', b'[{"b": {"a": null, "c": [], "a": null}}]'])
def test_a_name_twice_in_one_json_object_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError, match="expected each name once in a JSON object, got 'a' twice; keep one of them"):
        parse_json(text)
    assert parse_json('[{"a": 1}, {"a": NaN}]')[0] == {"a": 1}


def test_a_long_json_object_with_a_name_twice_is_refused_at_once() -> None:
    """A message of a stranger: looking for the name takes no longer than reading it."""
    text = "{" + ",".join(f'"{n}":0' for n in range(200_000)) + ',"199999":0}'
    with within(20), pytest.raises(ValueError, match="'199999' twice"):
        parse_json(text)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """An alarm for what would block for ever."""

    def ring(*_: Any) -> None:
        raise TimeoutError("still waiting")

    if not hasattr(signal, "SIGALRM"):
        yield
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def header(descr: Any, shape: Any, fortran: Any = False) -> bytes:
    """A .npy header that says this, true or not."""
    text = repr({"descr": descr, "fortran_order": fortran, "shape": shape}).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def archive(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as out:
        for name, data in members.items():
            out.writestr(name, data)
    return path


# ---------------------------------------------------------------- plain files


KINDS = {
    "pipe": "got a pipe",
    "folder": "got a folder",
    "socket": "got a socket",
    "zero": "got a device",
    "terminal": "got a device",
    "link to a pipe": "got a pipe",
    "loop": "cannot read .*symbolic links",
    "missing": "cannot read .*No such file",
}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("read", [read_bytes, read_text, read_archive, read_record])
def test_what_is_no_plain_file_is_refused_at_once(
    kind: str, read: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    if kind in ("pipe", "link to a pipe"):
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to("pipe")
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            monkeypatch.chdir(tmp_path)  # the name of a socket may be no longer than 100 letters
            server.bind("x")
    elif kind in ("zero", "terminal"):
        path.symlink_to({"zero": "/dev/zero", "terminal": "/dev/tty"}[kind])
    elif kind == "loop":
        path.symlink_to("x")
    with within(5), pytest.raises((ValueError, OSError), match=KINDS[kind]):
        read(path, "poses")


@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="needs /proc")
def test_a_file_of_the_system_without_a_size_is_empty(tmp_path: Path) -> None:
    with within(5), pytest.raises(ValueError, match="got an empty file"):
        read_archive(Path("/proc/self/environ"), "poses")
    with within(5):
        assert read_bytes("/proc/self/environ", "text") == b""


def test_a_file_that_is_too_large_is_refused_unread(tmp_path: Path) -> None:
    with open(tmp_path / "a", "wb") as file:
        file.truncate(files.LARGEST_JSON + 1)  # it takes no space on the disk
    with pytest.raises(ValueError, match=r"a: expected roles of at most 17 MB, got 17 MB"):
        read_text(tmp_path / "a", "roles")


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"half")

    def read(then: Exception | None) -> None:
        with open_file(path, "motion"):
            path.write_bytes(path.read_bytes() + b" and the rest")
            if then is not None:
                raise then

    for then in (None, ValueError("damaged, which is only a consequence")):
        with pytest.raises(ValueError, match="a: changed while it was read; try again when it is complete"):
            read(then)


def test_a_file_that_is_replaced_while_it_is_read_is_read_as_it_was(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", b"before")
    with open_file(tmp_path / "a", "motion") as file:
        write_whole(tmp_path / "a", b"afterwards")
        assert file.read() == b"before"


# ---------------------------------------------------------------- arrays


def test_arrays_of_every_kind_come_back_as_numpy_reads_them(tmp_path: Path, rng: np.random.Generator) -> None:
    arrays = {
        "plain": rng.normal(size=(3, 4)),
        "fortran": np.asfortranarray(rng.normal(size=(3, 4, 5))),
        "big": rng.normal(size=5).astype(">f4"),
        "empty": np.zeros((0, 3)),
        "one": np.array(7),
        "words": np.array(["a", "", "\N{SNOWMAN}"]),
        "bool": np.array([True, False]),
        "record": np.zeros(2, [("a", "<f4", (3,)), ("b", "S5")]),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **arrays)
        found = read_archive(tmp_path / "a.npz", "arrays")
        assert list(found) == list(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array)
            assert found[name].dtype == array.dtype
            assert found[name].flags.writeable
    wide = io.BytesIO()
    np.lib.format.write_array(wide, arrays["plain"], version=(2, 0))
    assert (read_archive(archive(tmp_path / "b.npz", {"a.npy": wide.getvalue()}), "x")["a"] == arrays["plain"]).all()


def test_members_that_nobody_asks_for_are_never_expanded(tmp_path: Path) -> None:
    """1 GB of zeros in 1 MB: asked for, it is refused before anything is allocated."""
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as out:
        out.writestr("a.npy", npy(np.arange(3)))
        with out.open("junk.npy", "w", force_zip64=True) as file:
            file.write(header("<f8", (20_000_000,)))
            for _ in range(160):
                file.write(bytes(1_000_000))
    tracemalloc.start()
    begin = time.process_time()
    assert read_archive(path, "figures", ["a"])["a"].tolist() == [0, 1, 2]
    with pytest.raises(
        ValueError, match=r"bomb.npz: .*junk: expands to 160 MB .* save it uncompressed \(numpy.savez\)"
    ):
        read_archive(path, "figures")
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()
    assert time.process_time() - begin < 1


@pytest.mark.parametrize(
    ("member", "words"),
    [
        (b"no array", "no NumPy array"),
        (b"", "no NumPy array"),
        (b"X" + npy(np.zeros(3)), "no NumPy array"),
        (npy(np.zeros(3))[:-1], "23 bytes where its header says 24"),
        (npy(np.zeros(3)) + b"more", "28 bytes where its header says 24"),
        (header("<f8", (10**12,)), "an array of shape"),
        (header("<f8", (2**62, 2**62)), "an array of shape"),
        (header("<f8", (2**40, 0)), "an array of shape"),
        (header("<U0", (10**12,)), "an array of shape"),
        (header("|V0", (10**12,)), "an array of shape"),
        (header([], (10**12,)), "a header that is no NumPy array's|an array of shape"),
        (header("<U1000000000", ()), "a header that is no NumPy array's|an array of shape"),
        (header("<f8", (-3,)), "a header that is no NumPy array's"),
        (header("<f8", (True,)), "a header that is no NumPy array's"),
        (header("<f8", (1,) * 40), "a header that is no NumPy array's"),
        (header("<f8", 3), "a header that is no NumPy array's"),
        (header("nonsense", (3,)), "a header that is no NumPy array's"),
        (header(("<f8", (10**9, 10**9)), (3,)), "a header that is no NumPy array's|an array of shape"),
        (b"\x93NUMPY\x01\x00" + struct.pack("<H", 9000) + b"(" * 9000, "a header that is no NumPy array's"),
        (b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + b"{" * 100, "a header of 4,294,967,295 bytes"),
        (b"\x93NUMPY\x09\x00" + b"\0" * 100, "no NumPy array"),
        (npy(np.array([{}], dtype=object)), "pickled content, which is refused unopened"),
        (header("|O", (1,)) + b"\0" * 8, "pickled content, which is refused unopened"),
        (header([("a", "|O")], (1,)) + b"\0" * 8, "pickled content, which is refused unopened"),
    ],
)
def test_an_array_that_is_not_what_its_header_says_is_refused_before_it_is_read(
    member: bytes, words: str, tmp_path: Path
) -> None:
    archive(tmp_path / "a.npz", {"a.npy": member})
    (tmp_path / "a.npy").write_bytes(member)
    tracemalloc.start()
    for path, read in ((tmp_path / "a.npz", read_archive), (tmp_path / "a.npy", read_record)):
        with (
            within(5),
            pytest.raises(ValueError, match=rf"^{path.name}: expected figures.*({words}|an empty file|another)"),
        ):
            read(path, "figures")
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("other", ["a.npy", "a"])
def test_two_arrays_of_one_name_are_refused(other: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as out:
        out.writestr("a.npy", npy(np.zeros(3)))
        out.writestr(other, npy(np.ones(3)))
    with pytest.raises(ValueError, match=r"a.npz: expected figures .* got two arrays called 'a'"):
        read_archive(tmp_path / "a.npz", "figures")


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compression_that_numpy_does_not_write_is_refused(compression: int, tmp_path: Path) -> None:
    archive(tmp_path / "a.npz", {"a.npy": npy(np.zeros(3))}, compression)
    with pytest.raises(ValueError, match="expected a stored or deflated member"):
        read_archive(tmp_path / "a.npz", "figures")


def test_a_list_of_very_many_members_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(tmp_path / "a.npz", {f"{n}.npy": b"" for n in range(100)})
    monkeypatch.setattr(files, "_LARGEST_READ", 1000)
    with pytest.raises(ValueError, match="got too many members"):
        read_archive(tmp_path / "a.npz", "figures")


def test_a_flipped_bit_is_found_by_the_checksum(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.npz", {"a.npy": npy(np.zeros(100))})
    data = bytearray(path.read_bytes())
    data[600] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"a damaged file \(Bad CRC-32"):
        read_archive(path, "figures")


def test_a_json_text_is_bytes_and_nothing_that_asks_for_memory() -> None:
    assert json_of(np.frombuffer(b'{"a": 1}', np.uint8)) == {"a": 1}
    for bad in (np.array(10**12), np.zeros(4), np.zeros((2, 2), np.uint8), np.frombuffer(b"[" * 100_000, np.uint8)):
        with pytest.raises(ValueError, match=r"expected the bytes of a JSON text|nested too deeply"):
            json_of(bad)


# ---------------------------------------------------------------- what killed processes left


def test_what_a_killed_process_left_is_removed_at_the_next_write_and_nothing_else(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = tmp_path / f".a.npz.{gone.pid}.part"
    kept = [
        tmp_path / f".a.npz.{os.getppid()}.part",  # of a process that is still writing
        tmp_path / f".b.npz.{gone.pid}.part",
        tmp_path / f"a.npz.{gone.pid}.part",
        tmp_path / ".a.npz.part",
        tmp_path / ".a.npz.backup.part",
        tmp_path / "a.npz.tmp",
    ]
    for path in (left, *kept):
        path.write_bytes(b"half")
    write_whole(tmp_path / "a.npz", b"whole")
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "a.npz", *kept])
    remove_leftovers(tmp_path / "none" / "a")
