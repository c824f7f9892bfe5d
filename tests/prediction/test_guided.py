# SPDX-License-Identifier: GPL-3.0-or-later
"""The guided network in NumPy: what it corrects, and its file."""

import numpy as np
import pytest

from neural_network.core.reference_rig import reference
from neural_network.learning import model_file
from neural_network.prediction import gaps, guided, library, network
from neural_network.prediction.gaps import Gaps
from neural_network.prediction.guided import Shape
from neural_network.prediction.network import Network
from neural_network.rigs import on_body

BODY = on_body.found(reference()).body
SMALL = Shape(told=3 * 141 + 19, rows=141, width=8, depth=1, heads=2, wide=16)


@pytest.fixture(scope="module")
def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {n: 0.1 * rng.standard_normal(s).astype(np.float32) for n, s in guided.tensor_shapes(SMALL).items()}


@pytest.fixture(scope="module")
def gap() -> tuple[Gaps, gaps.Guides]:
    rng = np.random.default_rng(1)
    root = np.cumsum(0.02 * rng.standard_normal((1, 40, 3)), axis=1)
    turns = np.tile(np.eye(3), (1, 40, BODY.count, 1, 1))
    own = library.of_takes(BODY, [library.Take("stands", turns[0], root[0])])
    cut, _ = gaps.local(Gaps(turns[:, :20], root[:, :20], 3, 1))
    return cut, gaps.guides(own, cut)


def test_known_frames_stay_and_a_kind_of_gap_that_is_worth_nothing_keeps_its_first_answer(weights, gap):
    rows, likely = Network(SMALL, weights, {}).corrected(*gap)
    known = gap[0].known
    assert np.array_equal(rows[:, known], gap[1].first[:, known])
    assert not np.array_equal(rows[:, ~known], gap[1].first[:, ~known])
    assert ((likely > 0) & (likely < 1)).all()
    kind = guided.kind_of(gap[0].length, float(gap[1].share[0]), True)
    half = Network(SMALL, weights, {"worth": {kind: 0.5}}).corrected(*gap)[0]
    assert np.allclose(half - gap[1].first, 0.5 * (rows - gap[1].first), atol=1e-7)
    none = Network(SMALL, weights, {"worth": {kind: 0.0}}).corrected(*gap)[0]
    assert np.array_equal(none, gap[1].first)


def test_kinds_tell_lengths_trust_and_ends_apart():
    found = {guided.kind_of(n, share, ends) for n in (10, 30, 60) for share in (0.1, 0.9) for ends in (True, False)}
    assert found == {
        f"{size}, {word}" for size in ("short", "middle", "long", "ahead") for word in ("library", "straight")
    }


def test_weights_are_read_as_they_are_judged(tmp_path, weights):
    path = tmp_path / "motion.npz"
    network.save(path, Network(SMALL, weights, {"worth": {"short, library": 0.5}, "takes": ["02_01"]}))
    found = network.load(path)
    assert found.shape == SMALL
    assert found.worth == {"short, library": 0.5}
    for name, array in network.in_file(weights).items():
        assert np.array_equal(found.tensors[name], array)


@pytest.mark.parametrize(
    ("about", "drop", "words"),
    [
        ({"shape": {"told": 442}}, "", "shape of a motion network"),
        ({"shape": vars(SMALL), "worth": {"short, library": 7.0}}, "", "shares from 0 to 1"),
        ({"shape": vars(SMALL)}, "out.bias", "out.bias: expected"),
    ],
)
def test_other_files_are_refused_in_words(tmp_path, weights, about, drop, words):
    path = tmp_path / "motion.npz"
    kept = {name: array for name, array in weights.items() if name != drop}
    model_file.write(path, model_file.Model(network.KIND, about, kept))
    with pytest.raises(ValueError, match=words):
        network.load(path)


def test_weights_that_are_not_there_say_how_to_get_them(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"standalone_trainer\.py motion"):
        network.load(tmp_path / "none.npz")
