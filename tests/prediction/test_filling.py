# SPDX-License-Identifier: GPL-3.0-or-later
"""Fill and Continue on the shipped clips: keys stay, motion joins on, bad input is refused in words."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from neural_network.core import rotations
from neural_network.core.reference_rig import reference
from neural_network.motion import features, pose_set
from neural_network.prediction import continuing, filling, gaps, library, nearest
from neural_network.prediction.gaps import Gaps
from neural_network.rigs import on_body

DATA = Path(__file__).parents[2] / "training_data" / "training_data.npz"
BODY = on_body.found(reference()).body


@pytest.fixture(scope="module")
def takes() -> list[library.Take]:
    return library.takes_of(pose_set.load(DATA), BODY)


@pytest.fixture(scope="module")
def own(takes) -> library.Library:
    return library.of_takes(BODY, takes)


@pytest.fixture(scope="module")
def walk(takes) -> library.Take:
    take = max((t for t in takes if "walk" in t.name.lower()), key=lambda t: len(t.root))
    return library.Take(take.name, *library.at_rate(take))


def test_a_library_holds_every_clip_and_its_mirror_image_at_30_frames_a_second(takes, own):
    assert own.names[0] == own.names[1] == takes[0].name
    assert len(own.numbers) == own.frames == len(own.clip) == len(own.contact)
    first = own.clip == 0
    assert own.left[first].tolist() == list(range(first.sum()))[::-1]
    assert np.isfinite(own.numbers).all()


def test_joining_libraries_keeps_clips_apart(own):
    both = library.joined([own, own])
    assert both.clip.max() == 2 * len(own.names) - 1
    assert np.array_equal(both.left, np.r_[own.left, own.left])


def test_a_gap_cut_out_of_the_library_is_found_there(own, walk):
    n = min(20, len(walk.root) - 3)
    gap, _ = gaps.local(Gaps(walk.turns[None, : n + 3], walk.root[None, : n + 3], 2, 2))
    guide = gaps.guides(own, gap, most=1, stretches=(1.0,))
    assert own.names[own.clip[guide.windows[0].begin[0]]] == walk.name
    apart = np.abs(guide.best - features.to_rows(gap.turns, gap.root, BODY.leg_length)).max()
    straight = np.abs(guide.straight - features.to_rows(gap.turns, gap.root, BODY.leg_length)).max()
    assert apart < 0.3 * straight
    assert guide.share[0] > 0.9


def test_barred_clips_are_not_used(own, walk):
    gap, _ = gaps.local(Gaps(walk.turns[None, :16], walk.root[None, :16], 2, 1))
    barred = np.array([[name == walk.name for name in own.names]])
    for window in gaps.guides(own, gap, barred).windows:
        if np.isfinite(window.cost[0]):
            assert own.names[own.clip[window.begin[0]]] != walk.name


def test_search_finds_the_least_cost_of_all_windows(own):
    ends = nearest.Ends(
        9, own.numbers[[40]], own.numbers[[300]], np.array([[0.5, -0.2, 0]]), np.array([0.3]), (True, True)
    )
    found = nearest.search(own, ends, most=3, stretches=(1.0,))
    costs = np.full(own.frames, np.inf)
    for i in range(own.frames):
        if own.left[i] >= 9:
            way = own.back[i] @ (own.root[i + 9] - own.root[i]) / BODY.leg_length
            turn = own.heading[i + 9] - own.heading[i]
            costs[i] = np.sum((own.numbers[i] - own.numbers[40]) ** 2) + np.sum(
                (own.numbers[i + 9] - own.numbers[300]) ** 2
            )
            costs[i] += nearest.WAY**2 * np.sum((way - ends.way[0]) ** 2)
            costs[i] += nearest.TURN**2 * ((np.cos(turn) - np.cos(0.3)) ** 2 + (np.sin(turn) - np.sin(0.3)) ** 2)
    assert found[0].cost[0] == pytest.approx(costs.min(), rel=1e-3)
    begins = [int(w.begin[0]) for w in found]
    assert min(abs(a - b) for a in begins for b in begins if a != b) >= nearest.APART


def test_a_bridge_meets_places_and_velocities_at_both_ends():
    rng = np.random.default_rng(0)
    turns = rotations.matrix_from_axis_angle(0.02 * np.cumsum(rng.standard_normal((1, 31, BODY.count, 3)), axis=1))
    root = np.cumsum(0.01 * rng.standard_normal((1, 31, 3)), axis=1)
    known = [
        (
            rotations.matrix_from_axis_angle(0.1 * rng.standard_normal((1, 2, BODY.count, 3))),
            rng.standard_normal((1, 2, 3)),
        )
        for _ in range(2)
    ]
    known[0][1][:, 0] = known[0][1][:, 1] - [0.02, 0, 0]
    out = nearest.bridge(turns, root, *known)
    assert np.array_equal(out[1][:, 0], known[0][1][:, 1])
    assert np.array_equal(out[0][:, -1], known[1][0][:, 0])
    assert np.allclose(
        out[1][:, 1] - out[1][:, 0], known[0][1][:, 1] - known[0][1][:, 0], atol=0.35
    )  # the cubic's first frame


@pytest.mark.parametrize("fps", [24.0, 30.0, 60.0])
def test_keys_and_what_is_outside_them_stay_to_the_byte(own, walk, fps):
    times = np.arange(int((len(walk.root) - 1) * fps / 30)) * 30 / fps
    turns, root = features.resampled(walk.turns, walk.root, times)
    keys = [2, len(root) // 2, len(root) - 3]
    made = filling.fill(BODY, turns, root, keys, own, fps=fps)
    assert np.flatnonzero(made.generated).tolist() == [i for i in range(keys[0], keys[-1]) if i not in keys]
    kept = ~made.generated
    assert kept[keys].all()
    assert np.array_equal(made.turns[kept], turns[kept])
    assert np.array_equal(made.root[kept], root[kept])
    assert (made.source[made.generated] >= -1).all()
    step = np.linalg.norm(np.diff(made.root, axis=0), axis=1)
    assert step.max() < 3 * np.linalg.norm(np.diff(root, axis=0), axis=1).max() + 0.02


def test_the_same_seed_gives_the_same_motion_and_another_one_a_variation(own, walk):
    keys = [0, len(walk.root) - 1]
    seeds = (0, 0, 2, 2 + nearest.VARIATIONS * 10**12)
    first, again, other, far = (filling.fill(BODY, walk.turns, walk.root, keys, own, seed=s) for s in seeds)
    assert np.array_equal(far.turns, other.turns)
    assert np.array_equal(first.turns, again.turns)
    assert not np.array_equal(first.turns, other.turns)


def test_detail_leads_from_the_average_to_the_nearest_clip(takes, walk):
    others = library.of_takes(BODY, [take for take in takes if take.name != walk.name])
    keys = [0, len(walk.root) // 2]
    smooth, half, rough = (
        filling.fill(BODY, walk.turns, walk.root, keys, others, detail=d, hold=False).turns for d in (0.0, 0.5, 1.0)
    )
    assert 0 < np.abs(smooth - half).mean() < np.abs(smooth - rough).mean()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ([4], "two or more"),
        ([4, 4], "two or more"),
        ([0, 1], "between two of them"),
        ([0, 4000], "expected frames from 0 to"),
        ([-3, 5], "expected frames from 0 to"),
        ([0.5, 3.0], "whole frame numbers"),
    ],
)
def test_keys_that_make_no_sense_are_refused_in_words(own, walk, keys, words):
    with pytest.raises(ValueError, match=words):
        filling.fill(BODY, walk.turns, walk.root, keys, own)


def test_keys_far_apart_are_refused(own, walk):
    rows = np.resize(np.arange(len(walk.root)), 400)
    with pytest.raises(ValueError, match="300 frames between two of them at most"):
        filling.fill(BODY, walk.turns[rows], walk.root[rows], [0, 399], own)


def test_where_nothing_is_as_long_it_is_interpolated_and_said(own, walk):
    rows = np.resize(np.arange(len(walk.root)), 280)
    long = library.of_takes(BODY, [walk])
    made = filling.fill(BODY, walk.turns[rows], walk.root[rows], [0, 279], long)
    assert "interpolated" in made.notes[0]


def test_a_library_of_nothing_is_refused(walk):
    with pytest.raises(ValueError, match="at least one clip"):
        library.of_takes(BODY, [library.Take("short", walk.turns[:3], walk.root[:3])])


def test_going_on_joins_what_is_there_and_keeps_its_pace(own, walk):
    made = continuing.continue_(BODY, walk.turns, walk.root, 150, own)
    assert len(made.root) == 150
    before = np.linalg.norm(np.diff(walk.root[-10:, :2], axis=0), axis=1).mean()
    assert np.linalg.norm(made.root[0] - walk.root[-1]) < 3 * before + 0.01
    after = np.linalg.norm(np.diff(made.root[:, :2], axis=0), axis=1).mean()
    assert after == pytest.approx(before, rel=0.35)
    assert (made.source >= 0).all()


def test_the_pace_is_that_of_whole_steps_wherever_in_one_the_motion_ends(own, walk):
    def speed(root: np.ndarray) -> float:
        return float(np.linalg.norm(np.diff(root[:, :2], axis=0), axis=1).mean()) * library.FPS

    for end in (18, 24):
        known = slice(end - 10, end)
        assert abs(speed(walk.root[known]) / speed(walk.root) - 1) > 0.08
        made = continuing.continue_(BODY, walk.turns[known], walk.root[known], 200, own, hold=False)
        assert speed(made.root) == pytest.approx(speed(walk.root), rel=0.05)


def test_going_on_from_one_frame_at_another_rate(own, walk):
    made = continuing.continue_(BODY, walk.turns[:1], walk.root[:1], 31, own, fps=24.0)
    assert made.turns.shape == (31, BODY.count, 3, 3)
    assert np.isfinite(made.root).all()


def test_a_goal_and_a_heading_are_reached_for(own, walk):
    goal = walk.root[-1, :2] + [3.0, 0.0]
    made = continuing.continue_(BODY, walk.turns, walk.root, 240, own, goal=goal)
    nearest_way = np.linalg.norm(made.root[:, :2] - goal, axis=1).min()
    assert nearest_way < 0.8
    start = features.headings(walk.turns[:, 0])[-1]
    turned = continuing.continue_(BODY, walk.turns, walk.root, 150, own, heading=start + 1.2)
    found = features.headings(turned.turns[:, 0])[-30:].mean() - start
    assert (found - 1.2 + np.pi) % (2 * np.pi) - np.pi == pytest.approx(0, abs=0.5)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"frames": 0}, "1 to"),
        ({"frames": 10**6}, "1 to"),
        ({"goal": np.zeros(2), "heading": 0.0}, "got both"),
    ],
)
def test_what_cannot_go_on_is_refused_in_words(own, walk, given, words):
    asked = {"frames": 10, **given}
    with pytest.raises(ValueError, match=words):
        continuing.continue_(BODY, walk.turns, walk.root, asked.pop("frames"), own, **asked)
    with pytest.raises(ValueError, match="at least one frame"):
        continuing.continue_(BODY, walk.turns[:0], walk.root[:0], 10, own)


def test_trust_falls_with_cost_and_nothing_found_is_not_trusted():
    found = gaps.trust(np.array([0.01, 0.7, 10.0, np.inf]), 30, True)
    assert found[0] > 0.9
    assert (np.diff(found) < 0).all()
    assert found[3] == 0


def test_known_frames_are_given_no_room(own, walk):
    gap, _ = gaps.local(Gaps(walk.turns[None, :16], walk.root[None, :16], 3, 2))
    room = gaps.room(gap)
    assert np.array_equal(room.any(axis=1), ~gap.known)
    guide = gaps.guides(own, gap)
    assert not guide.contact[0, gap.known].any()
    assert 0 < guide.contact.max() <= 1 + 1e-9
    told = gaps.told(gap, guide.straight)
    ahead = gaps.told(replace(gap, after=0), gaps.guides(own, replace(gap, after=0)).straight)
    assert told.shape == ahead.shape
    assert told[0, :, -17].max() < gaps.NEVER == ahead[0, :, -17].max()
