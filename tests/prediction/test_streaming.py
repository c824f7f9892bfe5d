# SPDX-License-Identifier: GPL-3.0-or-later
"""Streaming windows: each as likely as any other, few files in memory, the same order again for the same seed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from neural_network.prediction import streaming
from neural_network.prediction.streaming import Streaming

LENGTHS = (9, 20, 14, 7, 30, 11, 8, 25, 16, 12)
KINDS = ("walk", "run", "jump", "walk", "run", "walk", "walk", "jump", "run", "walk")
SETTINGS = Streaming(window=8, batch=16, files=3, refresh=96)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> tuple[streaming.Source, ...]:
    """Ten takes whose rows say (take, frame)."""
    folder = tmp_path_factory.mktemp("takes")
    for i, (frames, kind) in enumerate(zip(LENGTHS, KINDS, strict=True)):
        rows = np.column_stack([np.full(frames, i), np.arange(frames)])
        streaming.write(folder / f"{i}.npz", rows, kind)
    return tuple(streaming.source(folder / f"{i}.npz") for i in range(len(LENGTHS)))


def batches(made: Iterator[np.ndarray], count: int) -> np.ndarray:
    return np.array(list(islice(made, count)))


def test_a_source_is_known_without_its_rows(sources: tuple[streaming.Source, ...]) -> None:
    assert [(s.frames, s.width, s.kind) for s in sources] == [(n, 2, k) for n, k in zip(LENGTHS, KINDS, strict=True)]


def test_a_window_is_consecutive_frames_of_one_take(sources: tuple[streaming.Source, ...]) -> None:
    found = batches(streaming.windows(sources, SETTINGS), 60)
    assert found.shape == (60, 16, 8, 2)
    assert found.dtype == np.float32
    assert np.all(found[..., 0] == found[..., :1, 0])
    np.testing.assert_array_equal(found[..., 1] - found[..., :1, 1], np.broadcast_to(np.arange(8), found.shape[:3]))


def test_every_window_is_as_likely_as_any_other(sources: tuple[streaming.Source, ...]) -> None:
    found = batches(streaming.windows(sources, SETTINGS), 4000)[:, :, 0].reshape(-1, 2)
    counts = np.zeros((len(LENGTHS), max(LENGTHS)))
    np.add.at(counts, (found[:, 0].astype(int), found[:, 1].astype(int)), 1)
    possible = np.array([[at <= n - 8 for at in range(max(LENGTHS))] for n in LENGTHS])
    assert counts[3].sum() == 0  # shorter than a window
    assert np.all(counts[possible] > 0)
    assert np.all(counts[~possible] == 0)
    shares = counts.sum(axis=1) / counts.sum()
    expected = possible.sum(axis=1) / possible.sum()
    np.testing.assert_allclose(
        shares, expected, rtol=0.12
    )  # a batch is whole, so few windows are served once too often
    within = counts[4][possible[4]]
    assert np.abs(within / within.mean() - 1).max() < 0.15


def test_files_give_way_by_the_number_of_windows_served(
    sources: tuple[streaming.Source, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    whole = streaming.read_archive

    def noted(path: Path, *more: object) -> dict[str, np.ndarray]:
        read.append(path.name)
        return whole(path, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(streaming, "read_archive", noted)
    made = streaming.windows(sources, SETTINGS)
    files = []
    for _ in range(600):
        next(made)
        files.append(len(read))
    assert files[0] == 3
    assert np.diff(files).max() <= 3
    assert files[-1] - 3 == pytest.approx(600 * 16 / 96 * 3, rel=0.1)  # all three after every 96 windows, on average
    assert len(set(read[:9])) == 9  # all nine that have a window, before any comes again


def test_no_more_files_are_in_memory_than_asked_for(sources: tuple[streaming.Source, ...]) -> None:
    for batch in islice(streaming.windows(sources, SETTINGS), 200):
        assert len(set(batch[:, 0, 0])) <= 3


def test_the_same_seed_serves_the_same_windows_and_another_others(sources: tuple[streaming.Source, ...]) -> None:
    one, again = (batches(streaming.windows(sources, SETTINGS), 50) for _ in range(2))
    other = batches(streaming.windows(sources, Streaming(**{**vars(SETTINGS), "seed": 1})), 50)
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_a_curriculum_admits_one_kind_after_another(sources: tuple[streaming.Source, ...]) -> None:
    stages = streaming.curriculum(960)
    assert stages == ((0, ("walk",)), (320, ("walk", "run")), (640, ("walk", "run", "jump")), (960, ()))
    found = batches(streaming.windows(sources, Streaming(**{**vars(SETTINGS), "stages": stages})), 90)[:, :, 0, 0]
    kinds = [{KINDS[int(i)] for i in batch} for batch in found]
    assert set.union(*kinds[:20]) == {"walk"}
    assert set.union(*kinds[20:40]) == {"walk", "run"}
    assert set.union(*kinds[40:]) == {"walk", "run", "jump"}


def test_kinds_are_told_from_names() -> None:
    names = ("07_01-walk", "16_35-run_jog", "16_01-jump", "49_02-dance", "x")
    assert [streaming.kind_of(name) for name in names] == ["walk", "run", "jump", "dance", "other"]


def test_what_cannot_be_served_is_said_in_words(sources: tuple[streaming.Source, ...], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a take of at least 99 frames in 10 files"):
        next(streaming.windows(sources, Streaming(window=99)))
    with pytest.raises(ValueError, match="expected a take of dance among 9 files, got none"):
        next(streaming.windows(sources, Streaming(**{**vars(SETTINGS), "stages": ((0, ("dance",)),)})))
    streaming.write(tmp_path / "wide.npz", np.zeros((9, 3)), "walk")
    with pytest.raises(ValueError, match=r"wide\.npz: expected 2 numbers in a row as in 0\.npz, got 3"):
        next(streaming.windows((*sources, streaming.source(tmp_path / "wide.npz")), SETTINGS))
    np.savez(tmp_path / "other.npz", rot=np.zeros(3))
    with pytest.raises(ValueError, match=r"other\.npz: expected frames to stream, got another npz file"):
        streaming.source(tmp_path / "other.npz")
    with pytest.raises(ValueError, match=r"bad\.npz: expected finite rows"):
        streaming.write(tmp_path / "bad.npz", np.full((3, 2), np.nan), "walk")


@pytest.mark.slow
def test_workers_serve_the_same_again_and_all_of_it(sources: tuple[streaming.Source, ...]) -> None:
    runs = []
    for _ in range(2):
        made = streaming.windows_of_workers(sources, SETTINGS, 2)
        runs.append(batches(made, 200))
        made.close()  # type: ignore[attr-defined]
    np.testing.assert_array_equal(*runs)
    assert set(runs[0][:, :, 0, 0].ravel()) == set(range(10)) - {3}
