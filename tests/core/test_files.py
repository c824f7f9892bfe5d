# SPDX-License-Identifier: GPL-3.0-or-later
"""Files are written whole or not at all, read without unpickling, and never overwritten by accident."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from neural_network.core import files
from neural_network.core.files import keep_apart, read_archive, whole_file, write_whole


def test_a_file_appears_when_it_is_whole_and_replaces_the_older_one(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a"
    with whole_file(path) as file:
        file.write(b"first")
        assert not path.exists()
    assert path.read_bytes() == b"first"
    with whole_file(path) as file:
        file.write(b"second")
        assert path.read_bytes() == b"first"
    assert path.read_bytes() == b"second"
    assert [p.name for p in path.parent.iterdir()] == ["a"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("bad"), OSError(errno.ENOSPC, "No space left")])
def test_an_error_in_the_middle_leaves_the_older_file_and_nothing_beside_it(
    error: BaseException, tmp_path: Path
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"precious")

    def write(file: BinaryIO) -> None:
        file.write(b"half")
        raise error

    with pytest.raises(type(error)) as caught, whole_file(path) as file:
        write(file)
    if isinstance(error, OSError):
        assert str(caught.value) == f"cannot write {path}: No space left; nothing was changed there"
    assert path.read_bytes() == b"precious"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_an_archive_is_read_whole_and_never_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.arange(3), b=np.array("word"))
    found = read_archive(tmp_path / "a.npz", "figures")
    assert found["a"].tolist() == [0, 1, 2]
    assert str(found["b"]) == "word"
    np.savez(tmp_path / "b.npz", a=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match=r"b\.npz: expected figures .* pickled content, which is refused unopened"):
        read_archive(tmp_path / "b.npz", "figures")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
def test_a_pipe_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe, b"figures")
        assert os.read(reader, 99) == b"figures"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_a_link_stays_one_and_the_file_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


@pytest.mark.parametrize("spelling", ["a.npz", "folder/../a.npz", "hard", "there/../new.json"])
def test_a_file_that_is_read_or_written_elsewhere_is_no_output(spelling: str, tmp_path: Path) -> None:
    (tmp_path / "a.npz").touch()
    (tmp_path / "folder").mkdir()
    os.link(tmp_path / "a.npz", tmp_path / "hard")
    read, written = {"--data": tmp_path / "a.npz", "--init": None}, {"--json": tmp_path / "new.json"}
    with pytest.raises(ValueError, match=r"--report: expected another file than for --(data|json), got .* for both"):
        keep_apart(read, {**written, "--report": tmp_path / spelling})
    keep_apart(read, {**written, "--report": tmp_path / "b"})


@pytest.mark.parametrize("name", ["aux.npz", "CON", "com1.json", "Lpt9.tar.gz"])
def test_names_that_windows_keeps_for_devices_are_refused_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_WINDOWS", True)
    with pytest.raises(ValueError, match="Windows keeps"):
        files.require_name(Path("folder") / name)
    for sound in ("auxiliary.npz", "con_1.npz", "com10.json", "a.con"):
        files.require_name(Path(sound))
    monkeypatch.setattr(files, "_WINDOWS", False)
    files.require_name(Path(name))
