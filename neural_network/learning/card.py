# SPDX-License-Identifier: GPL-3.0-or-later
"""The card: what a learned system was measured on, how good it is, and what it must beat. Every wing fills the same one.

A card holds tests (passed or not), figures (a value, its bar, and what plain rivals reach) and what was tried in vain. It goes
to JSON and back without loss, to lines for a terminal, and to an exit code: 0 where every bar is met, 1 where one is missed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ..core.messages import counted

DRAWS = 1000  # resamples of a bootstrap
SIGNS = ("<", "<=", "=", ">=")
INTERVAL = (2.5, 97.5)  # percentiles of a 95 % confidence interval


@dataclass(frozen=True)
class Verdict:
    """One test: a score against a fixed threshold."""

    name: str
    passed: bool | None
    """None: it could not be measured, so it counts neither as passed nor as failed."""
    score: float
    """NaN where there was nothing to measure."""
    threshold: float
    sentence: str
    """The result in words, with its numbers."""
    sign: Literal["<", "<=", "=", ">="] = "<"
    """How the score compares with the threshold where the test passes."""


@dataclass(frozen=True)
class Figure:
    """One measured value beside its bar and its rivals."""

    name: str
    value: float
    unit: str
    better: Literal["lower", "higher"]
    n: int
    """Number of frames, poses or clips behind the value."""
    bar: float | None = None
    """What the value must reach; None: reported, not judged."""
    ci95: tuple[float, float] | None = None
    """95 % confidence interval; None where there are too few groups for one."""
    rivals: Mapping[str, float] = field(default_factory=dict)
    """Value of each plain rival on the same data, by its name."""

    @property
    def met(self) -> bool:
        """The value reaches the bar, or there is none."""
        if self.bar is None:
            return True
        return self.value <= self.bar if self.better == "lower" else self.value >= self.bar


@dataclass(frozen=True)
class NotReached:
    """An aim that was not reached."""

    name: str
    tried: str
    holds_back: str
    """What stands in the way."""


@dataclass(frozen=True)
class Data:
    """What the figures were measured on."""

    files: tuple[str, ...]
    """Names of the files, without folders."""
    frames: int
    """All frames, training and held out."""
    held_out: str
    """Which part was held out, in words: "subjects 07 and 16", "198 frames of 20 clips (split block)"."""
    fps: float | None
    """Frames a second; None where clips differ."""


@dataclass(frozen=True)
class Card:
    """Everything a wing says about how good it is."""

    wing: str
    version: str
    data: Data
    seed: int
    cpu_s: float
    """CPU seconds of the run that made the card."""
    figures: tuple[Figure, ...] = ()
    not_reached: tuple[NotReached, ...] = ()
    tests: tuple[Verdict, ...] = ()

    @property
    def missed(self) -> tuple[str, ...]:
        """Names of the failed tests and of the figures that miss their bar."""
        failed = [test.name for test in self.tests if test.passed is False]
        return (*failed, *(figure.name for figure in self.figures if not figure.met))

    @property
    def exit_code(self) -> int:
        """0 where every bar is met, 1 where one is missed."""
        return 1 if self.missed else 0


def ci95(values: np.ndarray, groups: np.ndarray, rng: np.random.Generator) -> tuple[float, float] | None:
    """95 % confidence interval of the mean of ``values`` (N), by resampling whole ``groups`` (N): takes, clips or subjects.

    Frames of one take resemble each other, so takes are drawn with replacement, not frames (the cluster bootstrap; Davison &
    Hinkley 1997, section 3.8, percentile interval of 1,000 draws). None for fewer than two groups: they say nothing about
    other takes.
    """
    if len(values) != len(groups):
        raise ValueError(f"groups: expected one for each of {len(values)} values, got {len(groups)}")
    names, member = np.unique(groups, return_inverse=True)
    if len(names) < 2:
        return None
    sums, counts = np.bincount(member, values), np.bincount(member)
    drawn = rng.integers(0, len(names), (DRAWS, len(names)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.percentile(means, INTERVAL)
    return float(low), float(high)


# ---------------------------------------------------------------- JSON


def to_json(card: Card) -> dict[str, Any]:
    """The card as plain JSON values, without NaN; "tests" only where there are some. Raises ValueError as :func:`from_json` does."""
    out: dict[str, Any] = {
        "wing": card.wing,
        "version": card.version,
        "data": {**vars(card.data), "files": list(card.data.files)},
        "seed": card.seed,
        "cpu_s": card.cpu_s,
        "figures": [
            {
                "name": figure.name,
                "value": figure.value,
                "unit": figure.unit,
                "better": figure.better,
                "bar": figure.bar,
                "n": figure.n,
                "ci95": None if figure.ci95 is None else list(figure.ci95),
                "rivals": dict(figure.rivals),
            }
            for figure in card.figures
        ],
        "not_reached": [dict(vars(aim)) for aim in card.not_reached],
    }
    if card.tests:
        out["tests"] = [{**vars(test), "score": None if math.isnan(test.score) else test.score} for test in card.tests]
    from_json(out)
    return out


def figures_from_json(rows: Any) -> tuple[Figure, ...]:
    """The figures of a card's JSON; ValueError as in :func:`from_json`."""
    return tuple(_figure(row, f"figures[{i}]") for i, row in enumerate(_list(rows, "figures")))


def tests_from_json(rows: Any) -> tuple[Verdict, ...]:
    """The tests of a card's JSON, which may hold other keys beside them; ValueError as in :func:`from_json`."""
    return tuple(_result(row, f"tests[{i}]") for i, row in enumerate(_list(rows, "tests")))


def from_json(values: Any) -> Card:
    """The card that :func:`to_json` wrote.

    Raises ValueError that names the place for a missing or unknown key, a value of another kind, NaN or infinity.
    """
    known = ("wing", "version", "data", "seed", "cpu_s", "figures", "not_reached")
    top = _keys(values, known, "card", also=("tests",))
    data = _keys(top["data"], ("files", "frames", "held_out", "fps"), "data")
    return Card(
        wing=_word(top["wing"], "wing"),
        version=_word(top["version"], "version"),
        data=Data(
            tuple(_word(name, f"data.files[{i}]") for i, name in enumerate(_list(data["files"], "data.files"))),
            _count(data["frames"], "data.frames"),
            _word(data["held_out"], "data.held_out"),
            None if data["fps"] is None else _number(data["fps"], "data.fps"),
        ),
        seed=_count(top["seed"], "seed"),
        cpu_s=_number(top["cpu_s"], "cpu_s"),
        figures=figures_from_json(top["figures"]),
        not_reached=tuple(
            _not_reached(row, f"not_reached[{i}]") for i, row in enumerate(_list(top["not_reached"], "not_reached"))
        ),
        tests=tests_from_json(top.get("tests", [])),
    )


def dumps(card: Card) -> bytes:
    """The card as a JSON document in UTF-8."""
    return (json.dumps(to_json(card), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _figure(row: Any, at: str) -> Figure:
    known = ("name", "value", "unit", "better", "bar", "n", "ci95", "rivals")
    row = _keys(row, known, at)
    better = row["better"]
    if better not in ("lower", "higher"):
        raise ValueError(f'{at}.better: expected "lower" or "higher", got {better!r}')
    ci = row["ci95"]
    if ci is not None:
        ci = tuple(_number(end, f"{at}.ci95") for end in _list(ci, f"{at}.ci95"))
        if len(ci) != 2 or ci[0] > ci[1]:
            raise ValueError(f"{at}.ci95: expected [low, high], got {list(ci)}")
    if not isinstance(row["rivals"], dict):
        raise ValueError(f"{at}.rivals: expected an object of names and numbers, got {row['rivals']!r}")
    return Figure(
        name=_word(row["name"], f"{at}.name"),
        value=_number(row["value"], f"{at}.value"),
        unit=_word(row["unit"], f"{at}.unit"),
        better=better,
        n=_count(row["n"], f"{at}.n"),
        bar=None if row["bar"] is None else _number(row["bar"], f"{at}.bar"),
        ci95=ci,
        rivals={
            _word(name, f"{at}.rivals"): _number(value, f"{at}.rivals[{name!r}]")
            for name, value in row["rivals"].items()
        },
    )


def _not_reached(row: Any, at: str) -> NotReached:
    row = _keys(row, ("name", "tried", "holds_back"), at)
    return NotReached(**{name: _word(value, f"{at}.{name}") for name, value in row.items()})


def _result(row: Any, at: str) -> Verdict:
    row = _keys(row, ("name", "passed", "score", "threshold", "sentence", "sign"), at)
    if row["passed"] is not None and not isinstance(row["passed"], bool):
        raise ValueError(f"{at}.passed: expected true, false or null, got {row['passed']!r}")
    if row["sign"] not in SIGNS:
        raise ValueError(f"{at}.sign: expected one of {', '.join(SIGNS)}, got {row['sign']!r}")
    return Verdict(
        name=_word(row["name"], f"{at}.name"),
        passed=row["passed"],
        score=math.nan if row["score"] is None else _number(row["score"], f"{at}.score"),
        threshold=_number(row["threshold"], f"{at}.threshold"),
        sentence=_word(row["sentence"], f"{at}.sentence"),
        sign=row["sign"],
    )


def _keys(value: Any, known: Sequence[str], at: str, also: Sequence[str] = ()) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{at}: expected an object, got {value!r}")
    missing = [name for name in known if name not in value]
    unknown = sorted(str(name) for name in value if name not in (*known, *also))
    if missing or unknown:
        told = [f"{word} {', '.join(names)}" for word, names in (("missing", missing), ("unknown", unknown)) if names]
        raise ValueError(f"{at}: {'; '.join(told)}; expected the keys {', '.join(known)}")
    return value


def _list(value: Any, at: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{at}: expected a list, got {value!r}")
    return value


def _word(value: Any, at: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{at}: expected words, got {value!r}")
    return value


def _number(value: Any, at: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{at}: expected a finite number, got {value!r}")
    return float(value)


def _count(value: Any, at: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{at}: expected a whole number from 0 up, got {value!r}")
    return value


# ---------------------------------------------------------------- lines for a terminal


def lines(card: Card) -> list[str]:
    """The card as lines: tests, figures with bar, interval and rivals, what was not reached, and the data."""
    out = verdict_lines(card.tests) if card.tests else []
    for figure in card.figures:
        judged = "      " if figure.bar is None else "met   " if figure.met else "MISSED"
        sign = "<=" if figure.better == "lower" else ">="
        bar = "" if figure.bar is None else f"  bar {sign} {figure.bar:.4g}"
        ci = "" if figure.ci95 is None else f"  95 % {figure.ci95[0]:.4g} to {figure.ci95[1]:.4g}"
        out.append(f"{judged}  {figure.name}: {figure.value:.4g} {figure.unit}{bar}{ci}  n {figure.n}")
        out += [f"        {name}: {value:.4g} {figure.unit}" for name, value in figure.rivals.items()]
    out += [f"NOT REACHED  {a.name}: tried {a.tried}; held back by {a.holds_back}" for a in card.not_reached]
    fps = "mixed frame rates" if card.data.fps is None else f"{card.data.fps:g} fps"
    files = ", ".join(card.data.files) or "no file"
    out.append(f"Data: {files}; {counted(card.data.frames, 'frame')}, {fps}; held out: {card.data.held_out}")
    out.append(f"{card.wing} {card.version}, seed {card.seed}, {card.cpu_s:.1f} CPU s")
    return out


def verdict_lines(tests: Sequence[Verdict]) -> list[str]:
    """One line for each test, and a summary."""
    verdicts = {True: "PASS", False: "FAIL", None: "n/a "}
    out = []
    for test in tests:
        bound = f"({test.sign} {test.threshold:g})"
        out.append(f"{verdicts[test.passed]}  {test.name:<19}{score_text(test):>8}  {bound:<9} {test.sentence}")
    return [*out, summary(tests)]


def score_text(test: Verdict) -> str:
    """The score in four decimals, a dash where there was nothing to measure."""
    return "-" if math.isnan(test.score) else f"{test.score:.4f}"


def summary(tests: Sequence[Verdict]) -> str:
    """How many of the tests passed; tests that could not be measured are named and not counted."""
    left_out = [test.name for test in tests if test.passed is None]
    measured = len(tests) - len(left_out)
    passed = sum(test.passed is True for test in tests)
    return f"{passed} of {counted(measured, 'test')} passed" + (
        f"; not measured: {', '.join(left_out)}" if left_out else ""
    )
