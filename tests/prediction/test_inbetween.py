# SPDX-License-Identifier: GPL-3.0-or-later
"""The network that fills gaps in NumPy: what it leaves alone, mirror images, how much it is worth, its file and the shipped weights."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from neural_network.core.reference_rig import reference
from neural_network.learning import model_file
from neural_network.motion import features, pose_set
from neural_network.prediction import filling, gaps, inbetween, library, network
from neural_network.prediction.gaps import Gaps, Guides
from neural_network.prediction.inbetween import Shape
from neural_network.prediction.network import Network
from neural_network.rigs import on_body

DATA = Path(__file__).parents[2] / "training_data" / "training_data.npz"
BODY = on_body.found(reference()).body
SMALL = Shape(told=gaps.told_count(141), rows=141, width=8, depth=1, heads=2, wide=16)


def weights(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {n: 0.1 * rng.standard_normal(s).astype(np.float32) for n, s in inbetween.tensor_shapes(SMALL).items()}


@pytest.fixture(scope="module")
def two() -> Network:
    about = {"takes": ["02_01"], "validated_on": []}
    return network.joined([network.of_one(SMALL, weights(seed), about) for seed in (0, 1)])


@pytest.fixture(scope="module")
def gap() -> tuple[Gaps, Guides]:
    rng = np.random.default_rng(1)
    root = np.cumsum(0.02 * rng.standard_normal((1, 40, 3)), axis=1)
    turns = np.tile(np.eye(3), (1, 40, BODY.count, 1, 1))
    own = library.of_takes(BODY, [library.Take("stands", turns[0], root[0])])
    cut, _ = gaps.local(Gaps(turns[:, :20], root[:, :20], 3, 1))
    return cut, gaps.guides(own, cut)


def test_known_frames_stay_and_the_answer_lies_between_the_three_that_are_averaged(two, gap):
    cut, guide = gap
    rows, stands = two.mixed(BODY, cut, guide)
    known = cut.known
    assert np.array_equal(rows[:, known], guide.first[:, known])
    assert not stands[:, known].any()
    alone, _ = two.answered(BODY, cut, guide.straight)
    by_network, by_any = gaps.worth(guide.windows[0].cost, cut.length)[:, 0]
    average = (1 - by_network) * guide.first + by_network * alone
    assert np.allclose(rows, (1 - by_any) * guide.straight + by_any * average, atol=1e-6)
    assert np.abs(alone - guide.straight)[:, ~known].max() > 1e-3


def test_several_networks_are_averaged_and_a_mirror_image_is_answered_by_the_mirror_image(two, gap):
    cut, guide = gap
    rows, likely = two.answered(BODY, cut, guide.straight)
    parts = [Network(SMALL, {n: a[k : k + 1] for n, a in two.tensors.items()}, {}) for k in (0, 1)]
    each = [one.answered(BODY, cut, guide.straight)[0] for one in parts]
    assert np.allclose(rows, np.mean(each, axis=0), atol=1e-6)
    order, signs = features.mirrored_rows(BODY)
    turns, root = features.mirrored(BODY, *features.from_rows(guide.straight, BODY.leg_length))
    other = features.to_rows(turns, root, BODY.leg_length)
    assert np.allclose(other, guide.straight[..., order] * signs, atol=1e-6)
    mirrored, feet = two.answered(BODY, cut, other)
    assert np.allclose(mirrored, rows[..., order] * signs, atol=1e-5)
    assert np.allclose(feet, likely[..., ::-1], atol=1e-5)


def test_the_less_the_library_has_the_more_the_network_counts_and_where_nothing_fits_interpolation_does():
    by_network, by_any = gaps.worth(np.array([0.05, 0.5, 5.0, np.inf]), 30)
    assert (np.diff(by_network) > 0).all()
    assert by_network[-1] == 1
    assert (np.diff(by_any) <= 0).all()
    assert by_any[0] > 0.99
    assert by_any[-1] < 0.5


def test_weights_are_read_as_they_are_judged_and_nearly_as_they_were_learned(tmp_path, two):
    path = tmp_path / "motion.npz"
    network.save(path, two)
    found = network.load(path)
    assert found.shape == SMALL
    assert len(found.members) == 2
    for name, array in two.tensors.items():
        assert np.array_equal(found.tensors[name], array)
        assert np.abs(array[0] - weights(0)[name]).max() <= np.abs(array[0]).max() / 200
    with pytest.raises(ValueError, match="one shape"):
        network.joined([two, replace(two, shape=replace(SMALL, depth=2))])


@pytest.mark.parametrize(
    ("about", "drop", "words"),
    [
        ({"shape": {"told": 301}}, "", "shape of a motion network"),
        ({"shape": vars(SMALL)}, "out.bias", "out.bias: expected"),
        ({"shape": vars(SMALL)}, "into.weight.scale", "a scale for each"),
    ],
)
def test_other_files_are_refused_in_words(tmp_path, two, about, drop, words):
    path = tmp_path / "motion.npz"
    network.save(path, two)
    kept = {name: array for name, array in model_file.read(path, network.KIND).tensors.items() if name != drop}
    model_file.write(path, model_file.Model(network.KIND, about, kept))
    with pytest.raises(ValueError, match=words):
        network.load(path)


def test_weights_that_are_not_there_say_how_to_get_them(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"standalone_trainer\.py motion"):
        network.load(tmp_path / "none.npz")


def test_variations_and_detail_work_with_the_shipped_networks():
    takes = library.takes_of(pose_set.load(DATA), BODY)
    own = library.of_takes(BODY, takes)
    walk = max((t for t in takes if "walk" in t.name.lower()), key=lambda t: len(t.root))
    turns, root = library.at_rate(walk)
    keys, learned = [5, 30], network.load()

    def made(**how: float) -> np.ndarray:
        found = filling.fill(BODY, turns, root, keys, own, network=learned, **how)
        assert np.array_equal(found.turns[keys], turns[keys])
        assert np.array_equal(found.root[keys], root[keys])
        return features.to_rows(found.turns, found.root, BODY.leg_length)[6:30]

    likeliest = made()
    assert np.array_equal(likeliest, made())
    assert np.abs(likeliest - made(seed=3)).max() > 1e-3
    # At full detail only the nearest window counts, with a network or without one.
    rough = filling.fill(BODY, turns, root, keys, own, detail=1.0, hold=False)
    with_network = filling.fill(BODY, turns, root, keys, own, detail=1.0, hold=False, network=learned)
    assert np.allclose(rough.turns, with_network.turns, atol=1e-5)
    assert np.abs(likeliest - made(detail=0.5)).max() > 1e-3


def test_shipped_weights_say_what_they_are_and_have_not_seen_whom_they_are_judged_on():
    found = network.load()
    assert network.SHIPPED.stat().st_size <= 2_000_000
    subjects = {take.split("_")[0] for take in found.about["takes"]}
    assert not subjects & {"07", "16", "49"}
    assert len(subjects) >= 3
    for one in found.about["networks"]:
        assert "NSF EIA-0196217" in one["acknowledgement"]
        assert {"seed", "command", "machine", "licence"} <= one.keys()
