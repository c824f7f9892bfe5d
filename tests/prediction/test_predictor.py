# SPDX-License-Identifier: GPL-3.0-or-later
"""Predictors at work without PyTorch: the shipped one, how much of it Continue takes, files that are none, figures of rollouts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from neural_network.core.files import read_archive
from neural_network.motion import features, pose_set
from neural_network.prediction import blending, continuing, library, predictor, rollouts, step_figures

DATA = Path(__file__).parents[2] / "training_data" / "training_data.npz"


@pytest.fixture(scope="module")
def shipped() -> predictor.Predictor:
    found = predictor.shipped()
    assert found is not None
    return found


@pytest.fixture(scope="module")
def takes() -> list[library.Take]:
    found = library.takes_of(pose_set.load(DATA))
    return [library.Take(t.name, *library.at_rate(t)) for t in found]


@pytest.fixture(scope="module")
def body():
    from neural_network.core.reference_rig import reference
    from neural_network.rigs import on_body

    return on_body.found(reference()).body


def test_the_shipped_predictor_has_a_card_and_has_not_seen_what_figures_are_measured_on(shipped):
    assert shipped.about["left_out"] == ["07", "16", "49"]
    step_figures.require_unseen(shipped, predictor.SHIPPED, ("07", "16", "49"))
    with pytest.raises(ValueError, match="learned nothing"):
        step_figures.require_unseen(shipped, predictor.SHIPPED, ("35",))
    for word in ("licence", "acknowledgement", "seed", "command", "machine"):
        assert word in shipped.about
    assert len({name.split("_")[0] for name in shipped.about["takes"]}) >= 3
    assert predictor.SHIPPED.stat().st_size <= 2_000_000


def test_the_shipped_predictor_is_nearer_than_a_held_pose_for_a_third_of_a_second(shipped, body, takes):
    judged = rollouts.measured({"mlp": shipped}, body, [take for take in takes if len(take.root) >= 70])
    ours, held = (judged[name].local.mean(axis=0)[:10] for name in ("mlp", rollouts.HOLD))
    assert (ours < held).all()
    told = rollouts.summary(judged["mlp"])
    assert told["MPJPE after 10 [mm]"] == pytest.approx(ours[9])
    assert told["next frame: R2"] > rollouts.summary(judged[rollouts.HOLD])["next frame: R2"]


def test_more_of_a_predictor_is_taken_where_windows_differ(shipped):
    sharing = blending.sharing_of(shipped)
    assert sharing is not None
    alike, apart = np.full((1, 60), 0.03), np.full((1, 60), 0.2)
    assert (blending.share(sharing, alike) < blending.share(sharing, apart)).all()
    assert (blending.share(sharing, np.full((1, 60), np.inf)) == 1).all()
    assert blending.sharing_of(replace(shipped, about={"sharing": ["much"]})) is None
    errors = np.linspace(2, 1, len(blending.SHARES))[:, None, None] * np.ones((1, 1, 3))
    assert blending._error(errors, np.array([[0.0, 0.5, 1.0]])) == pytest.approx(1.5)


def test_continue_takes_what_is_predicted(shipped, body, takes):
    walk = max((t for t in takes if "walk" in t.name.lower()), key=lambda t: len(t.root))
    own = library.of_takes(body, [take for take in takes if "walk" not in take.name.lower()])
    place = features.place_at(walk.turns[:10], walk.root[:10], 9)
    known = features.seen_from(place, walk.turns[:10], walk.root[:10])
    rows = shipped.rows(body, known[0][None], known[1][None], 12)[0]
    said = features.put_at(place, *features.from_rows(rows, body.leg_length))

    def made(steps: predictor.Predictor | None) -> continuing.Continued:
        return continuing.continue_(body, walk.turns[:10], walk.root[:10], 12, own, hold=False, steps=steps)

    all_of_it, nothing = (replace(shipped, about={"sharing": [level, 0.0, 0.0]}) for level in (90.0, -90.0))
    assert np.abs(made(all_of_it).root - said[1]).max() < 1e-6
    assert np.abs(made(all_of_it).turns - said[0]).max() < 1e-6
    assert np.array_equal(made(nothing).turns, made(None).turns)
    assert not np.allclose(made(shipped).turns, made(None).turns)


def test_other_files_are_refused_in_words(shipped, tmp_path):
    with pytest.raises(FileNotFoundError, match="--mode mlp"):
        predictor.load(tmp_path / "none.npz")
    with pytest.raises(ValueError, match="motion predictor"):
        predictor.load(predictor.SHIPPED.with_name("gait.npz"))
    path = tmp_path / "steps.npz"
    predictor.save(path, replace(shipped, mode="gru"))
    with pytest.raises(ValueError, match="does not fit"):
        predictor.load(path)
    predictor.save(path, shipped)
    assert read_archive(path, "weights")["out.weight"].dtype == np.float16
    with pytest.raises(ValueError, match="--split_file"):
        step_figures.held_out(path, [])
