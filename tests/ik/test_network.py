# SPDX-License-Identifier: GPL-3.0-or-later
"""The network and best.npy: complete by itself, never unpickled, and refused in words when unsound."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import RIGS, make_rig, slow_except

from neural_network.core import skeleton
from neural_network.core.skeleton import SkeletonMismatch
from neural_network.ik import network
from neural_network.ik.context import LAYOUTS
from neural_network.ik.network import Network
from neural_network.ik.solver import Solver
from neural_network.learning.layers import parameter_count


def random_network(name: str = "reference", layout: str = "reference", hidden: tuple[int, ...] = (12, 9)) -> Network:
    rig, shape = make_rig(name), LAYOUTS[layout]
    rng = np.random.default_rng(2)
    inputs = rng.normal(size=(50, shape.input_count(rig))) + 3
    inputs[:, 4] = 0.25  # one that never moves
    net = network.init(rig, shape, hidden, inputs, rng.normal(size=shape.output_count(rig)), rng)
    centres = rng.normal(size=(5, 7)).astype(np.float32)
    return replace(net, centres=centres, meta={"data": {"hash": "abc", "split": "block"}, "figures": [1.5, None]})


# ---------------------------------------------------------------- the perceptron


def test_the_reference_network_has_25605_weights() -> None:
    rig = make_rig("reference")
    assert network.sizes(rig, LAYOUTS["reference"], (128, 96)) == (50, 128, 96, 69)
    assert parameter_count((50, 128, 96, 69)) == 25605


def test_the_forward_pass_is_tanh_layers_and_a_linear_one(rng: np.random.Generator) -> None:
    net = random_network()
    (w1, b1), (w2, b2), (w3, b3) = network.stack(net).layers
    x = rng.normal(size=(6, 50)).astype(np.float32)
    y = np.tanh(np.tanh((x - net.mean) / net.deviation @ w1 + b1) @ w2 + b2) @ w3 + b3
    np.testing.assert_allclose(network.forward(net, x), y, atol=1e-6)


def test_a_fresh_network_answers_near_the_mean_pose(rng: np.random.Generator) -> None:
    rig, layout = make_rig("reference"), LAYOUTS["reference"]
    inputs, mean = rng.normal(size=(500, 50)), rng.normal(size=69)
    net = network.init(rig, layout, (128, 96), inputs, mean, rng)
    out = network.forward(net, inputs)
    assert np.abs(out - mean).mean() < 0.15
    assert np.abs(out.mean(axis=0) - mean).max() < 0.1


def test_steady_inputs_and_flags_are_not_scaled() -> None:
    net = random_network()
    flags = net.layout.columns(net.skeleton)["flags"]
    np.testing.assert_array_equal(net.deviation[[4, *flags]], 1)
    others = np.setdiff1d(np.arange(50), [4, *flags])
    assert np.all(np.abs(net.deviation[others] - 1) > 1e-6)


def test_an_input_that_never_varied_does_not_move_the_pose(rng: np.random.Generator) -> None:
    net = random_network()
    x = rng.normal(size=(6, 50)).astype(np.float32)
    other = x.copy()
    other[:, 4] += 3
    np.testing.assert_array_equal(network.forward(net, x), network.forward(net, other))
    other[:, 5] += 3
    assert np.abs(network.forward(net, x) - network.forward(net, other)).max() > 1e-3


# ---------------------------------------------------------------- best.npy


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", slow_except(RIGS, "creature"))
def test_a_network_comes_back_as_it_was_saved(name: str, layout: str, tmp_path: Path) -> None:
    net = random_network(name, layout)
    network.save(tmp_path / "best.npy", net)
    found = network.load(tmp_path / "best.npy")
    for field in ("parameters", "mean", "deviation", "centres"):
        np.testing.assert_array_equal(getattr(found, field), getattr(net, field))
        assert getattr(found, field).dtype == np.float32
    assert (found.layout, found.hidden, found.meta) == (net.layout, net.hidden, net.meta)
    rig, other = net.skeleton, found.skeleton
    assert other.fingerprint == rig.fingerprint
    np.testing.assert_array_equal(other.rest_arm, rig.rest_arm)
    np.testing.assert_array_equal(other.t_pose, rig.t_pose)
    assert (other.limits is None) == (rig.limits is None)
    if rig.limits is not None:
        np.testing.assert_array_equal(other.limits, rig.limits)


def test_the_file_opens_without_pickle_and_twice_with_the_same_bytes(tmp_path: Path) -> None:
    network.save(tmp_path / "a.npy", random_network())
    network.save(tmp_path / "b.npy", random_network())
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()
    record = np.load(tmp_path / "a.npy", allow_pickle=False)
    assert not record.dtype.hasobject
    assert json.loads(bytes(record["about"]))["layout"] == "reference"


def test_names_of_any_language_survive(tmp_path: Path) -> None:
    rig = make_rig("tentacle")
    other = skeleton.make(["Wurzel", "Größe", "尻尾"], rig.parents, rig.rest_arm, ["尻尾"], [])
    net = random_network("tentacle")
    network.save(tmp_path / "best.npy", replace(net, skeleton=other))
    assert network.load(tmp_path / "best.npy").skeleton.names == ("Wurzel", "Größe", "尻尾")


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"no weights at .*best.npy: train first \(python standalone_trainer.py\)"
    ):
        network.load(tmp_path / "best.npy")


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "best.npy").touch()
    with pytest.raises(ValueError, match=r"best.npy: expected weights, got an empty file"):
        network.load(tmp_path / "best.npy")


def test_a_file_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    network.save(tmp_path / "best.npy", random_network())
    whole = (tmp_path / "best.npy").read_bytes()
    for share in np.linspace(0, 1, 60, endpoint=False):
        (tmp_path / "best.npy").write_bytes(whole[: int(share * len(whole)) + 1])
        with pytest.raises(ValueError, match=r"^best.npy: "):
            network.load(tmp_path / "best.npy")


@pytest.mark.slow
def test_a_damaged_file_is_refused_or_read_but_never_crashes(tmp_path: Path, rng: np.random.Generator) -> None:
    network.save(tmp_path / "best.npy", random_network("tentacle", hidden=(3,)))
    whole = np.frombuffer((tmp_path / "best.npy").read_bytes(), np.uint8)
    words = []
    for _ in range(400):
        bad = whole.copy()
        bad[rng.integers(0, len(bad), rng.integers(1, 9))] ^= rng.integers(1, 256, dtype=np.uint8)
        (tmp_path / "best.npy").write_bytes(bad.tobytes())
        try:
            network.load(tmp_path / "best.npy")
        except ValueError as error:
            words.append(str(error))
    assert len(words) > 200
    assert all(w.startswith("best.npy: ") and "\n" not in w for w in words)


class Trap:
    """Pickled, it makes a file when opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (open, (str(self.path), "w"))


def test_a_pickled_file_is_refused_unopened(tmp_path: Path) -> None:
    np.save(tmp_path / "best.npy", np.array([Trap(tmp_path / "sprung")], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"best.npy: expected weights, .*pickled content, which is refused unopened"):
        network.load(tmp_path / "best.npy")
    assert not (tmp_path / "sprung").exists()


def test_other_numpy_files_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "best.npy", np.zeros(25605))
    with pytest.raises(ValueError, match="got another kind of NumPy file"):
        network.load(tmp_path / "best.npy")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    (tmp_path / "best.npy").write_bytes((tmp_path / "other.npz").read_bytes())
    with pytest.raises(ValueError, match="got another kind of NumPy file"):
        network.load(tmp_path / "best.npy")
    np.save(tmp_path / "best.npy", np.zeros(2, dtype=[("about", "S2"), ("mean", "f4")]))
    with pytest.raises(ValueError, match=r"best.npy: "):
        network.load(tmp_path / "best.npy")


def edited(tmp_path: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """best.npy with its JSON text changed."""
    network.save(tmp_path / "best.npy", random_network())
    record = np.load(tmp_path / "best.npy", allow_pickle=False)
    about = json.loads(bytes(record["about"]))
    about = change(about) or about
    text = (about if isinstance(about, str) else json.dumps(about)).encode()
    kinds = [("about", f"S{len(text)}"), *((n, record.dtype[n]) for n in record.dtype.names if n != "about")]
    out = np.zeros((), dtype=kinds)
    for name in record.dtype.names:
        out[name] = text if name == "about" else record[name]
    np.save(tmp_path / "best.npy", out)
    return tmp_path / "best.npy"


def put(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda about: about.__setitem__(key, value)


def with_meta(meta: dict[str, Any]) -> Callable[[dict[str, Any]], Any]:
    return put("meta", meta)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put("version", 3), "expected version 2 of neural_ik model, got 3"),
        (put("format", "other"), "got 2 of 'other'"),
        (put("kind", 7), "kind: expected a name, got 7"),
        (put("layout", "spiral"), "expected a layout of reference, .*got 'spiral'"),
        (put("layout", ["reference"]), ""),
        (put("hidden", [12, 8]), r"layer_2.weights: expected \(12, 8\) for layers \(50, 12, 8, 69\)"),
        (put("hidden", [float("inf")]), ""),
        (put("hidden", ["many"]), ""),
        (put("hidden", None), ""),
        (put("hidden", [-12, 9]), ""),
        (put("bone_names", None), ""),
        (put("bone_names", ["Hips"] * 23), "must differ"),
        (put("parents", [0] * 23), "parents before children"),
        (put("parents", [1e300] * 23), ""),
        (put("effectors", 5), ""),
        (put("feet", ["Tail"]), "no bone called Tail"),
        (put("meta", [1, 2]), ""),
        (lambda about: about.__delitem__("meta"), ""),
        (with_meta({"data": []}), "expected data to be a dictionary"),
        (with_meta({"config": 5}), "expected config to be a dictionary"),
        (with_meta({"best_validation_mm": "7"}), "expected best_validation_mm to be a number"),
        (with_meta({"best_validation_mm": float("nan")}), "expected best_validation_mm to be a number"),
        (with_meta({"config": {"seed": None}}), "expected the seed to be a whole number"),
        (with_meta({"data": {"clips": 5}}), ""),
        (with_meta({"data": {"clips": [{"hash": "x"}]}}), "parts"),
        (with_meta({"data": {"clips": [{"hash": [], "parts": []}]}}), "expected a hash and runs"),
        (with_meta({"data": {"clips": [{"hash": "x", "parts": [[10**12, 1]]}]}}), "expected a hash and runs"),
        (with_meta({"data": {"clips": [{"hash": "x", "parts": [[5, 4]]}]}}), "expected a hash and runs"),
        (lambda about: "[" * 100_000, ""),
        (lambda about: "[]", ""),
        (lambda about: "not JSON", ""),
        (lambda about: "7", ""),
    ],
)
def test_an_unsound_text_is_refused(change: Callable[[dict[str, Any]], Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"^best.npy: not a sound weights file: .*{words}"):
        network.load(edited(tmp_path, change))


@pytest.mark.parametrize(
    ("field", "value"),
    [("parameters", np.nan), ("mean", np.inf), ("deviation", 0), ("deviation", -1), ("centres", np.nan)],
)
def test_unsound_numbers_are_refused(field: str, value: float, tmp_path: Path) -> None:
    net = random_network()
    array = getattr(net, field).copy()
    array[0] = value
    network.save(tmp_path / "best.npy", replace(net, **{field: array}))
    with pytest.raises(
        ValueError,
        match=r"best.npy: not a sound weights file: .*(NaN, infinity or a huge number|a scale of zero or below)",
    ):
        network.load(tmp_path / "best.npy")


def test_a_failed_save_leaves_the_old_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network.save(tmp_path / "best.npy", random_network())
    before = (tmp_path / "best.npy").read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left on device; nothing was changed"):
        network.save(tmp_path / "best.npy", random_network(hidden=(3,)))
    assert (tmp_path / "best.npy").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


# ---------------------------------------------------------------- whose weights


def test_another_topology_is_refused_with_the_differences(tmp_path: Path) -> None:
    network.save(tmp_path / "best.npy", random_network())
    with pytest.raises(
        SkeletonMismatch, match=r"the rig belongs to another skeleton: expected 23 bones, got 15; .*Head"
    ):
        Solver.load(tmp_path / "best.npy", make_rig("creature"))


def test_other_proportions_only_warn(tmp_path: Path) -> None:
    net = random_network()
    network.save(tmp_path / "best.npy", net)
    rig = net.skeleton
    names = ([rig.names[e] for e in rig.effectors], [rig.names[f] for f in rig.feet])
    big, arms = rig.rest_arm.copy(), rig.rest_arm.copy()
    big[:, :3, 3] *= 2
    arms[rig.names.index("LeftHand"), 0, 3] += 0.2
    same = Solver.load(tmp_path / "best.npy", skeleton.make(rig.names, rig.parents, big, *names))
    other = Solver.load(tmp_path / "best.npy", skeleton.make(rig.names, rig.parents, arms, *names))
    assert Solver.load(tmp_path / "best.npy").warning == ""
    assert same.warning == ""  # twice the size is the same shape
    assert "differ by up to 21 % of a leg" in other.warning
