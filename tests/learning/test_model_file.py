# SPDX-License-Identifier: GPL-3.0-or-later
"""The model file: it comes back as it was, in either container, says its kind, and is refused in words when unsound."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from conftest import REPO

from neural_network.ik import network
from neural_network.learning import model_file
from neural_network.learning.model_file import Model


def model(kind: str = "gait") -> Model:
    rng = np.random.default_rng(3)
    tensors = {
        "layer_1.weights": rng.normal(size=(3, 4)).astype(np.float32),
        "rest": rng.normal(size=(2, 4, 4)),
        "frames": np.arange(5),
        "flags": np.array([True, False]),
        "none": np.zeros((0, 6)),
    }
    return Model(kind, {"bones": ["Wurzel", "尻尾"], "figures": {"mm": 1.5, "unknown": None}}, tensors)


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_a_model_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    model_file.write(tmp_path / name, model())
    found = model_file.read(tmp_path / name, "gait")
    assert (found.kind, found.version) == ("gait", model_file.VERSION)
    assert found.about["bones"] == ["Wurzel", "尻尾"]
    assert found.about["figures"] == {"mm": 1.5, "unknown": None}
    assert set(found.tensors) == set(model().tensors)
    for key, array in model().tensors.items():
        np.testing.assert_array_equal(found.tensors[key], array)
        assert found.tensors[key].dtype == array.dtype


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_the_same_model_gives_the_same_bytes_and_the_content_decides_how_it_is_read(name: str, tmp_path: Path) -> None:
    other = tmp_path / "other" / name
    model_file.write(tmp_path / name, model())
    model_file.write(other, model())
    assert other.read_bytes() == (tmp_path / name).read_bytes()
    renamed = tmp_path / "renamed.weights"
    renamed.write_bytes(other.read_bytes())
    assert model_file.read(renamed, "gait").about == model_file.read(other, "gait").about


def test_the_kind_is_part_of_the_file(tmp_path: Path) -> None:
    model_file.write(tmp_path / "a.npy", model("gait"))
    assert model_file.kind_of(tmp_path / "a.npy") == "gait"
    with pytest.raises(ValueError, match=r"a.npy: expected weights of kind 'ik', got 'gait'"):
        network.load(tmp_path / "a.npy")
    (tmp_path / "b.npy").write_text("no model")
    assert model_file.kind_of(tmp_path / "b.npy") is None
    assert model_file.kind_of(tmp_path / "none.npy") is None


def test_files_from_before_there_were_kinds_are_of_kind_ik(tmp_path: Path) -> None:
    """A best.npy as version 1 wrote it: all parameters in one field, the format's older name."""
    import json

    text = json.dumps({"format": "neural_ik weights", "version": 1, "hidden": [4]}).encode()
    record = np.zeros((), dtype=[("about", f"S{len(text)}"), ("parameters", "<f4", (3,))])
    record["about"], record["parameters"] = text, [1, 2, 3]
    np.save(tmp_path / "best.npy", record)
    found = model_file.read(tmp_path / "best.npy", "ik")
    assert found.version == 1
    np.testing.assert_array_equal(found.tensors["parameters"], [1, 2, 3])


def test_the_shipped_weights_load() -> None:
    net = network.load(REPO / "training_data" / "weights" / "best.npy")
    assert net.skeleton.count == 23
    assert np.isfinite(net.parameters).all()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "got an empty file"),
        (b"text, no weights", "expected weights, got a"),
        (b"\x93NUMPY\x01\x00", "expected weights, got a damaged file"),
    ],
)
def test_a_file_of_another_kind_is_refused(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(ValueError, match=rf"^a.npy: .*{words}"):
        model_file.read(tmp_path / "a.npy", "ik")


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_a_file_cut_short_is_refused(name: str, tmp_path: Path) -> None:
    model_file.write(tmp_path / name, model())
    whole = (tmp_path / name).read_bytes()
    for share in np.linspace(0, 1, 25, endpoint=False):
        (tmp_path / name).write_bytes(whole[: int(share * len(whole)) + 1])
        with pytest.raises(ValueError, match=rf"^{name}: "):
            model_file.read(tmp_path / name, "gait")


def test_a_file_that_says_a_thing_twice_is_refused(tmp_path: Path) -> None:
    text = model_file._text(model()).replace(b'"kind":', b'"kind": "ik", "kind":')
    np.savez(tmp_path / "a.npz", about=np.frombuffer(text, np.uint8))
    with pytest.raises(
        ValueError, match=r"a\.npz: not a sound weights file: expected each name once .* got 'kind' twice"
    ):
        model_file.read(tmp_path / "a.npz", "gait")


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no weights at .*a.npy: train first"):
        model_file.read(tmp_path / "a.npy", "gait", "train first")


def test_what_is_not_a_number_is_neither_written_nor_taken(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="words: expected an array of numbers"):
        model_file.write(tmp_path / "a.npy", Model("gait", {}, {"words": np.array(["a"])}))
    assert not (tmp_path / "a.npy").exists()
    for bad in (np.nan, np.inf, 1e30):
        with pytest.raises(ValueError, match="a huge number in w"):
            model_file.require_learned({"w": np.array([1.0, bad])})
    model_file.require_learned({"w": np.array([1.0])})


@pytest.mark.parametrize("odd", [np.array([b"abc"]), np.array([np.nan]), None])
def test_a_tensor_whose_name_has_a_line_feed_is_refused_in_one_line(odd: np.ndarray | None, tmp_path: Path) -> None:
    about = np.frombuffer(model_file._text(model()), np.uint8)
    np.savez(tmp_path / "a.npz", **{"about": about} | ({} if odd is None else {"cen\ntres": odd}))
    if odd is None:
        with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
            archive.writestr("cen\ntres.npy", b"\x93NUMPY\x01\x00\x02\x00{}")
    with pytest.raises(ValueError, match=r"cen\?tres") as refused:
        model_file.require_learned(model_file.read(tmp_path / "a.npz", "gait").tensors)
    assert "\n" not in str(refused.value)
