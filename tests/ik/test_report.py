# SPDX-License-Identifier: GPL-3.0-or-later
"""The report: complete by itself, whole as HTML, the same bytes twice, and honest about what it shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from conftest import make_poses, make_rig

from neural_network.ik import batches, errors, quality, report, task
from neural_network.ik.context import Samples, prepare
from neural_network.ik.network import Network
from neural_network.ik.settings import Training
from neural_network.learning.page import INK
from neural_network.motion import splits
from neural_network.motion.pose_set import PoseSet
from neural_network.motion.splits import TRAIN

pytest.importorskip("matplotlib", reason="the report is drawn by matplotlib, which is not installed here")

HISTORY = ((0.3, 0.25), (0.2, 0.1), (0.15, 0.12))
VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """Every start tag with its attributes, all text, and the tags left open or closed out of turn."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.open: list[str] = []
        self.faults: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> Iterator[dict[str, str]]:
        return (attributes for name, attributes in self.tags if name == tag)


def made(poses: PoseSet, kind: str = "block", layout: str = "reference") -> tuple[Network, Samples, dict[str, Any]]:
    samples, parts = prepare(poses), splits.split(poses, kind)
    config = Training(layout=layout, hidden=(8,))
    net = task.begin(poses.skeleton, samples, np.flatnonzero(parts == TRAIN), config)
    net = replace(
        net, meta={"data": quality.describe_split(poses, parts, kind), "config": {"hidden": [8], "lr": 0.001}}
    )
    return net, samples, quality.figures([quality.measure(net, poses, parts, samples)], poses, kind)


def errors_of_test(net: Network, poses: PoseSet, samples: Samples) -> np.ndarray:
    """(N) [m] mean joint error of every test frame after the exact steps."""
    rows = np.flatnonzero(quality.parts_for(net, poses) == splits.TEST)
    return errors.refined_errors(net, *batches.asked(net.layout, net.skeleton, samples, rows)).joints


@pytest.fixture(scope="module")
def poses() -> PoseSet:
    return make_poses(make_rig("reference"), clips=3, frames=40)


@pytest.fixture(scope="module")
def case(poses: PoseSet) -> tuple[Network, Samples, dict[str, Any]]:
    return made(poses)


@pytest.fixture(scope="module")
def source(poses: PoseSet, case: tuple[Network, Samples, dict[str, Any]]) -> str:
    net, samples, card = case
    return report.html(net, poses, samples, card, HISTORY)


def test_it_is_whole_html_without_anything_from_elsewhere(source: str) -> None:
    page = Page(source)
    assert not page.open
    assert not page.faults
    assert not re.search(r"https?://|\bsrc=|@import|<script|<link|javascript:|url\((?!#)", source)
    assert next(page.all("html"))["lang"] == "en"
    assert len(list(page.all("h1"))) == 1


def test_every_picture_says_what_it_is_and_every_id_is_its_own(source: str) -> None:
    page = Page(source)
    pictures = list(page.all("svg"))
    assert len(pictures) == 4
    assert all(p["role"] == "img" and len(p["aria-label"]) > 20 for p in pictures)
    assert source.count("<figcaption>") == 4
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = re.findall(r'(?:url\(#|href="#)([^)"]+)', source)
    assert links
    assert set(links) <= set(ids)


def test_pictures_take_the_colour_of_the_page(source: str) -> None:
    assert INK not in source
    assert source.count("currentColor") > 50
    assert "prefers-color-scheme: dark" in source


def test_it_shows_the_figures_of_the_card(source: str, case: tuple[Network, Samples, dict[str, Any]]) -> None:
    text, card = Page(source).text, case[2]
    for name, label in quality.labels(orientations=True, free_root=False):
        assert label in text
        assert f"{card['baselines'][name]['mpjpe_mm']:,.2f}" in text
    for row in (card["holdout"], card["refined"], card["without_context"]):
        assert f"{row['effector_mm']['p95']:,.2f}" in text
    for test in card["tests"]:
        assert test["name"] in text
        assert test["sentence"] in text
    passed = sum(test["passed"] for test in card["tests"])
    assert f"{passed} of 6 tests passed" in text
    assert text.count("FAIL") == 6 - passed
    for figure in card["figures"]:
        assert figure["name"] in text
        assert f"{figure['value']:,.2f}" in text
    for name, value in card["clips"].items():
        assert name in text
        assert f"{value:.2f}" in text
    assert "the best epoch, 2 of 3, with 100.0 mm" in text


def test_the_same_case_gives_the_same_bytes(
    source: str, poses: PoseSet, case: tuple[Network, Samples, dict[str, Any]]
) -> None:
    net, samples, card = case
    assert report.html(net, poses, samples, card, HISTORY) == source


def test_the_poses_that_are_drawn_are_those_after_the_exact_steps_the_worst_first(
    source: str, poses: PoseSet, case: tuple[Network, Samples, dict[str, Any]]
) -> None:
    found = re.search(r"not by looks: (.*?)</figcaption>", source, re.DOTALL)
    assert found
    shown = [float(mm) for mm in re.findall(r", ([\d.]+) mm", found.group(1))]
    assert len(shown) == len(report.PERCENTILES)
    assert shown == sorted(shown, reverse=True)
    net, samples, _ = case
    after = errors_of_test(net, poses, samples)
    assert shown[0] == pytest.approx(after.max() * 1000, abs=0.06)


def test_a_leaky_split_is_named_before_any_figure(poses: PoseSet) -> None:
    net, samples, card = made(poses, "frame")
    text = Page(report.html(net, poses, samples, card, ())).text
    assert text.index("Leaky split.") < text.index("mean effector error")
    assert "LEAKY" in text


def test_weights_that_were_tested_only_show_no_training(
    poses: PoseSet, case: tuple[Network, Samples, dict[str, Any]]
) -> None:
    net, samples, card = case
    page = Page(report.html(net, poses, samples, card, ()))
    assert len(list(page.all("svg"))) == 3
    assert "no training history" in page.text


def test_weights_fitted_on_every_clip_show_no_pose_as_unseen(
    poses: PoseSet, case: tuple[Network, Samples, dict[str, Any]]
) -> None:
    net, samples, card = case
    data = quality.describe_split(poses, np.full(poses.frames, TRAIN, np.int8), "all")
    net = replace(net, meta={**net.meta, "data": data})
    page = Page(report.html(net, poses, samples, {**card, "samples": {**card["samples"], "folds": 5}}, HISTORY))
    assert len(list(page.all("svg"))) == 2  # actions and training
    assert "no frame is left that they never saw" in page.text
    assert "5 folds pooled" in page.text


def test_names_from_files_are_text_and_nothing_else(poses: PoseSet) -> None:
    odd = replace(poses, clip_names=("<script>x</script>", 'a"b&c', "$x_1^2$"))
    net, samples, card = made(odd)
    source = report.html(net, odd, samples, card, HISTORY)
    assert "<script" not in source
    page = Page(source)
    assert not page.faults
    for name in odd.clip_names:
        assert name in page.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "setting"),
    [
        (("$\\frac{$", "cost $5_ to $6^", "$$"), ""),
        (("$", "$ $ $", r"\$a_b$"), "text.usetex"),
        (("$x^{$y_", r"$\undefined$", "$\N{SNOWMAN}_1^$"), "axes.formatter.use_mathtext"),
    ],
)
def test_names_with_dollar_signs_are_no_formulas_whatever_the_settings_of_matplotlib(
    poses: PoseSet, names: tuple[str, str, str], setting: str
) -> None:
    import matplotlib

    odd = replace(poses, clip_names=names)
    net, samples, card = made(odd)
    with matplotlib.rc_context({setting: True} if setting else {}):
        source = report.html(net, odd, samples, card, HISTORY)
    page = Page(source)
    assert not page.faults
    assert len(list(page.all("svg"))) == 4
    pictures = Page("".join(re.findall("<svg.*?</svg>", source, re.DOTALL))).text
    for name in names:
        assert name in pictures
    assert "mathdefault" not in pictures


@pytest.mark.parametrize(("rig", "layout"), [("creature", "reference"), ("reference", "masked"), ("reference", "free")])
def test_other_rigs_and_layouts_are_drawn_too(rig: str, layout: str) -> None:
    poses = make_poses(make_rig(rig), clips=3, frames=40)
    net, samples, card = made(poses, layout=layout)
    page = Page(report.html(net, poses, samples, card, HISTORY))
    assert len(list(page.all("svg"))) == 4
    assert ("1 target given" in page.text) == (layout == "masked")
    assert ("Hips off by" in page.text) == (layout == "free")


def test_families_and_activities_stand_side_by_side() -> None:
    poses = make_poses(make_rig("reference"), clips=4, frames=40)
    names = ("one/walk", "one/jump", "two/walk", "two/jump")
    poses = replace(poses, clip_names=names, clip_tasks=("locomotion", "jump") * 2)
    net, samples, card = made(poses)
    assert set(card["groups"]["family"]) == {"one", "two"}
    assert set(card["groups"]["activity"]) == {"locomotion", "jump"}
    for found in card["groups"].values():
        mean = np.average([row["holdout"] for row in found.values()], weights=[row["frames"] for row in found.values()])
        assert abs(mean - card["holdout"]["effector_mm"]["mean"]) < 1e-4
    card["groups"]["family"]["one"] |= {"own": 1.5, "ratio": 98.76}
    page = Page(report.html(net, poses, samples, card, HISTORY))
    assert "Error by family" in page.text
    assert "Error by activity" in page.text
    assert "98.76" in page.text


def test_one_activity_and_no_family_make_no_table(case: tuple[Network, Samples, dict[str, Any]], source: str) -> None:
    assert case[2]["groups"].keys() <= {"activity"}
    assert "Error by family" not in source
