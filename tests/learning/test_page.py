# SPDX-License-Identifier: GPL-3.0-or-later
"""The report page that every wing fills: whole HTML, complete by itself, safe with any name, and told in words too."""

from __future__ import annotations

import html
import importlib
import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from neural_network.learning import page
from neural_network.learning.card import Figure, Verdict
from neural_network.learning.page import TableRow

ODD = '<script>alert("x")</script> & $a_1$'
TESTS = (
    Verdict("Hold", True, 0.1, 0.2, "it holds"),
    Verdict("Follow", False, 0.3, 0.8, "it does not follow", ">="),
    Verdict("Natural", None, float("nan"), 1.0, "no training frames"),
)


class Reader(HTMLParser):
    """The text, the start tags, and what was closed out of turn."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.text, self.tags, self.open, self.wrong = "", [], [], []  # type: ignore[var-annotated]
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def drawn() -> None:
    pytest.importorskip("matplotlib", reason="pictures are drawn by matplotlib, which is not installed here")


# ---------------------------------------------------------------- the page and its parts


def test_a_page_of_all_parts_is_whole_html_with_nothing_from_elsewhere() -> None:
    parts = [
        page.header(ODD, ODD, TESTS, [(ODD, ODD)], "<strong>Careful.</strong>"),
        page.section(ODD, page.note(ODD) + page.facts([(ODD, ODD)]) + page.details(ODD, page.note(ODD)), ODD),
        page.section("Tests", page.tests_table(TESTS)),
        page.section("Figures", page.figures_table((Figure(ODD, 1.5, "mm", "lower", 4, 2.0, (1, 2), {ODD: 3.25}),))),
        page.section(
            "Table",
            page.table(
                (ODD, "x", "y"), [TableRow(ODD, (ODD, 2.5)), TableRow("all", ("needs data",)), TableRow("c", (None, 7))]
            ),
        ),
    ]
    source = page.page(ODD, parts)
    read = Reader(source)
    assert not read.open
    assert not read.wrong
    assert "<script" not in source
    assert not re.search(r"https?://|\bsrc=|@import|<link|javascript:|url\((?!#)", source)
    assert read.text.count(ODD) >= 13
    assert read.tags.count("h1") == 1
    assert read.tags.count("section") == 4
    assert 'name="color-scheme" content="light dark"' in source
    assert "prefers-color-scheme: dark" in source


def test_numbers_stand_to_the_right_with_the_decimals_asked_for() -> None:
    source = page.table(
        ("", "Word", "Number"), [TableRow("a", ("w", 1234.5678)), TableRow("b", (None, 4321), strong=True)], decimals=1
    )
    assert "<td>w</td><td class=n>1,234.6</td>" in source
    assert '<tr class=ours><th scope="row">b</th><td>-</td><td class=n>4,321</td>' in source
    assert "<td colspan=2>needs data</td>" in page.table(("", "Word", "Number"), [TableRow("a", ("needs data",))])


def test_the_tests_say_pass_fail_and_not_measured_in_words() -> None:
    text = Reader(page.tests_table(TESTS)).text
    assert text.count("pass") == text.count("FAIL") == text.count("not measured") == 1
    assert "\N{GREATER-THAN OR EQUAL TO} 0.8" in text
    for test in TESTS:
        assert test.sentence in text
    assert "1 of 2 tests passed; not measured: Natural" in Reader(page.header("h", "s", TESTS, [])).text
    assert 'class="bad"' in page.header("h", "s", TESTS, [])
    assert 'class="good"' in page.header("h", "s", (TESTS[0], TESTS[2]), [])


def test_figures_stand_with_bar_interval_and_rivals() -> None:
    figures = (
        Figure("slide", 1.5, "mm", "lower", 1400, 1.0, (1.25, 1.75), {"played on": 3.5}),
        Figure("found", 90.0, "%", "higher", 40),
    )
    text = Reader(page.figures_table(figures)).text
    for words in (
        "slide [mm]",
        "1.50",
        "1.25 to 1.75",
        "\N{LESS-THAN OR EQUAL TO} 1.00, MISSED",
        "1,400",
        "played on",
        "3.50",
    ):
        assert words in text
    assert "found [%]" in text


def test_a_missing_matplotlib_is_told_with_the_command_that_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ValueError, match=r"needs matplotlib: uv run --group report x\.py"):
        page.check("uv run --group report x.py")


# ---------------------------------------------------------------- pictures


class Label:
    """A label as matplotlib keeps one: mathtext, and TeX, are settings of each."""

    def __init__(self, words: str, settings: dict[str, Any]) -> None:
        self.words, self.math, self.tex = words, settings["text.parse_math"], settings["text.usetex"]

    def set_parse_math(self, on: bool) -> None:
        self.math = on

    def set_usetex(self, on: bool) -> None:
        self.tex = on


@pytest.mark.parametrize("name", ["$\\frac{$", "cost $5_ to $6^", "$$", "$"])
def test_every_label_is_drawn_as_plain_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"text.parse_math": True, "text.usetex": True}

    @contextmanager
    def context(more: dict[str, Any]) -> Iterator[None]:
        before = dict(settings)
        settings.update(more)
        yield
        settings.update(before)

    class Drawing:
        labels = (Label(name, settings), Label("after", settings))

        def findobj(self, kind: object) -> list[Label]:
            assert kind is Label
            return list(self.labels)

        def savefig(self, buffer: io.StringIO, **_: object) -> None:
            made_meanwhile = Label(name, settings)  # such as the labels of ticks
            for label in (*self.labels, made_meanwhile):
                if label.math or label.tex:
                    raise ValueError(f"Expected end of text, found '$' in {label.words}")
            buffer.write(f"<?xml?><svg width='9pt' viewBox='0 0 9 9'><text>{html.escape(name)}</text></svg>")

    monkeypatch.setitem(sys.modules, "matplotlib", SimpleNamespace(rc_context=context))
    monkeypatch.setitem(sys.modules, "matplotlib.text", SimpleNamespace(Text=Label))
    assert name in Reader(page.picture(Drawing(), "a", "c", "n")).text
    assert settings["text.parse_math"]  # the user's own setting is back


def test_every_picture_is_described_and_keeps_its_ids_apart() -> None:
    drawn()
    rng = np.random.default_rng(0)
    values = rng.gamma(2, 1, (3, 50))
    source = page.page(
        "x",
        [
            page.histogram({"alone": values, "after": 0.1 * values}, "mm", "error", "heads", "errors"),
            page.bars({ODD: 3.0, "b": 9.0}, 4.0, "mm", "mean error", "actions", "actions"),
            page.curves([(3.0, 4.0), (2.0, 2.5), (1.0, 3.0)], "mm", "error"),
        ],
    )
    read = Reader(source)
    assert not read.open
    assert not read.wrong
    assert read.tags.count("svg") == read.tags.count("figcaption") == source.count('role="img"') == 3
    ids = re.findall(r'\bid="([^"]+)"', source)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(#|href="#)([^)"]+)', source)) <= set(ids)
    assert page.INK not in source
    assert f"alone: mean {values.mean():.3g} mm" in read.text
    assert "the best epoch, 2 of 3, with 2.5 mm" in read.text
    assert read.text.index("b9.00") < read.text.index("3.00")  # worst first, in numbers too
    assert "<script" not in source


def test_the_same_picture_has_the_same_bytes() -> None:
    drawn()
    values = {f"clip {i}": float(i) for i in range(40)}
    first, second = (page.bars(values, 20.0, "mm", "error", "clips", "clips") for _ in range(2))
    assert first == second
    text = Reader(first).text
    assert f"The {page.BARS_MOST} worst of 40 clips" in text
    assert "All 40 clips in numbers" in text


def test_no_history_is_said_and_not_drawn() -> None:
    assert "no training history" in page.curves([], "mm", "error")
    assert "<svg" not in page.curves([], "mm", "error")
