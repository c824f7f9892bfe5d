# SPDX-License-Identifier: GPL-3.0-or-later
"""The report page: one HTML file, complete by itself, for light and dark screens. Every wing fills it with its own sections.

A page is a header and sections of tables, pictures and notes. Pictures are drawn by matplotlib, which is imported only here
and only when a report is made. Each picture comes with its numbers in words or in a table, so nothing is told by colour alone.
"""

from __future__ import annotations

import html as escaping
import importlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .card import Figure, Verdict, score_text, summary

INK = "#0f0f0f"  # replaced by the page's own text colour, so that pictures suit a light and a dark page
FIRST, SECOND = "#d0620a", "#1c7ed6"  # colours of the first and second series: colour-blind readers can tell them apart
FAINT = "#8a8f98"
BARS_MOST = 30  # bars in one picture; the table beside it has them all
LEAST = 1e-3  # left edge of a histogram's logarithmic axis, in its unit


def check(command: str = "uv run --group report ...") -> None:
    """Raise ValueError where matplotlib is missing; ``command`` runs this program with it. Call it before long work."""
    try:
        importlib.import_module("matplotlib")
    except ImportError:
        raise ValueError(f"the report needs matplotlib: {command} (or pip install matplotlib)") from None


# ---------------------------------------------------------------- the page and its parts


def page(title: str, parts: Sequence[str]) -> str:
    """The whole document: ``parts`` are a header and sections as HTML, ``title`` is plain text."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n<title>{text(title)}</title>\n<style>{_STYLE}</style>\n'
        f"</head>\n<body>\n<main>\n" + "\n".join(parts) + "\n</main>\n</body>\n</html>\n"
    )


def header(
    heading: str,
    sentence: str,
    tests: Sequence[Verdict],
    tiles: Sequence[tuple[str, str]],
    warning: str = "",
) -> str:
    """The top of the page: heading, a sentence, how many tests passed, a warning (HTML) and tiles of (value, label)."""
    failed = any(test.passed is False for test in tests)
    lines = [
        "<header>",
        f"<h1>{text(heading)}</h1>",
        f'<p>{text(sentence)} <span class="{"bad" if failed else "good"}">{text(summary(tests))}</span></p>',
    ]
    if warning:
        lines.append(f'<p class="warning">{warning}</p>')
    found = "".join(f"<div><b>{text(value)}</b><span>{text(label)}</span></div>" for value, label in tiles)
    return "\n".join([*lines, f'<div class="tiles">{found}</div>', "</header>"])


def section(title: str, body: str, lead: str = "") -> str:
    """A section of the page; ``lead`` is plain text, ``body`` HTML."""
    said = f"<p>{text(lead)}</p>" if lead else ""
    return f"<section>\n<h2>{text(title)}</h2>\n{said}{body}\n</section>"


def note(words: str) -> str:
    """A paragraph of plain text."""
    return f"<p>{text(words)}</p>"


@dataclass(frozen=True)
class TableRow:
    """One line of a table: a label, and a cell for each further column (text, or a number that is set to the right)."""

    label: str
    cells: tuple[str | int | float | None, ...]
    strong: bool = False
    """Set in bold: what the page is about, among its rivals."""


def table(columns: Sequence[str], rows: Sequence[TableRow], decimals: int = 2) -> str:
    """A table; ``columns`` names the label's column first. A row with one text alone spans all columns; None is a dash."""
    first, *others = columns
    numeric = [
        any(isinstance(cell, (int, float)) for row in rows for cell in row.cells[i : i + 1]) for i in range(len(others))
    ]
    head = f"<th scope=col>{text(first)}</th>" + "".join(
        f"<th scope=col{' class=n' if right else ''}>{text(name)}</th>"
        for name, right in zip(others, numeric, strict=True)
    )
    lines = []
    for row in rows:
        if len(row.cells) == 1 and len(others) > 1:
            cells = f"<td colspan={len(others)}>{text(str(row.cells[0]))}</td>"
        else:
            cells = "".join(
                f"<td{' class=n' if right else ''}>{text(_cell(cell, decimals))}</td>"
                for cell, right in zip(row.cells, numeric, strict=True)
            )
        lines.append(f'<tr{" class=ours" if row.strong else ""}><th scope="row">{text(row.label)}</th>{cells}</tr>')
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """A table of names and values, without a head."""
    found = "".join(f"<tr><th scope=row>{text(name)}</th><td>{text(value)}</td></tr>" for name, value in pairs)
    return f'<div class="wide"><table><tbody>{found}</tbody></table></div>'


def details(title: str, body: str) -> str:
    """HTML that is folded away under a line of plain text."""
    return f"<details><summary>{text(title)}</summary>{body}</details>"


def text(words: str) -> str:
    """Plain text, safe inside HTML."""
    return escaping.escape(words)


def _cell(value: str | int | float | None, decimals: int) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{decimals}f}"


# ---------------------------------------------------------------- from a card


def tests_table(tests: Sequence[Verdict]) -> str:
    """The tests of a card."""
    words = {True: ("pass", "good"), False: ("FAIL", "bad"), None: ("not measured", "none")}
    rows = []
    for test in tests:
        word, kind = words[test.passed]
        rows.append(
            f'<tr><td><span class="{kind}">{word}</span></td><th scope="row">{text(test.name)}</th>'
            f"<td class=n>{score_text(test)}</td><td class=n>{_sign(test.sign)} {test.threshold:g}</td>"
            f"<td>{text(test.sentence)}</td></tr>"
        )
    head = "<tr><th scope=col>Result</th><th scope=col>Test</th><th scope=col class=n>Score</th>"
    head += "<th scope=col class=n>Needed</th><th scope=col>In words</th></tr>"
    return f'<div class="wide"><table class="tests"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'


def _sign(sign: str) -> str:
    """A comparison sign as HTML."""
    return text(sign.replace("<=", "\N{LESS-THAN OR EQUAL TO}").replace(">=", "\N{GREATER-THAN OR EQUAL TO}"))


def figures_table(figures: Sequence[Figure]) -> str:
    """The figures of a card: value, confidence interval, bar, and the rivals below each."""
    rows = []
    for one in figures:
        sign = "\N{LESS-THAN OR EQUAL TO}" if one.better == "lower" else "\N{GREATER-THAN OR EQUAL TO}"
        bar = "" if one.bar is None else f"{sign} {one.bar:,.2f}, {'met' if one.met else 'MISSED'}"
        interval = "" if one.ci95 is None else f"{one.ci95[0]:,.2f} to {one.ci95[1]:,.2f}"
        rows.append(TableRow(f"{one.name} [{one.unit}]", (one.value, interval, bar, one.n), strong=True))
        rows += [TableRow(rival, (value, "", "", "")) for rival, value in one.rivals.items()]
    return table(("Figure", "Value", "95 % interval", "Bar", "n"), rows)


# ---------------------------------------------------------------- pictures


def histogram(series: Mapping[str, np.ndarray], unit: str, what: str, of: str, name: str) -> str:
    """Shares of one or two series of errors on a logarithmic axis; ``what`` is measured, ``of`` is what each share counts."""
    drawing, axes = figure(1, 1, 9.6, 2.9)
    ax = axes[0, 0]
    top = max(float(values.max()) for values in series.values())
    edges = np.geomspace(LEAST, max(top * 1.05, 10 * LEAST), 61)
    words = []
    looks = ((FIRST, "--"), (SECOND, "-"))
    for (label, values), (color, line) in zip(series.items(), looks, strict=False):
        flat = np.maximum(values.ravel(), LEAST)
        share = np.histogram(flat, edges)[0] / flat.size * 100
        ax.stairs(share, edges, fill=True, color=color, alpha=0.3, lw=0)
        ax.stairs(share, edges, color=color, lw=1.6, ls=line, label=label)
        mean, p95 = float(values.mean()), float(np.percentile(values, 95))
        ax.axvline(p95, color=color, lw=1.2, ls=":")
        words.append(
            f"{label}: mean {mean:.3g} {unit}, median {np.median(values):.3g} {unit}, p95 {p95:.3g} {unit} (dotted)"
        )
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(plain_numbers())
    ax.set_xlim(edges[0], edges[-1])
    ax.set_xlabel(f"{what} [{unit}]")
    ax.set_ylabel(f"share of {of} [%]")
    ax.legend(frameon=False, labelcolor=INK, loc="upper left")
    caption = text(f"{'; '.join(words)}. Errors below {LEAST:g} {unit} are counted at the left edge.")
    return picture(drawing, f"Histogram of {what}, in shares of {of}", caption, name)


def bars(values: Mapping[str, float], mean: float, unit: str, what: str, of: str, name: str) -> str:
    """A bar for each name, the largest value first, with a table of all of them; ``of`` is what the names are, in the plural."""
    ranked = sorted(values.items(), key=lambda item: -item[1])
    shown = ranked[:BARS_MOST]
    drawing, axes = figure(1, 1, 9.6, 0.6 + 0.24 * len(shown))
    ax = axes[0, 0]
    places = np.arange(len(shown))
    lengths = np.array([value for _, value in shown])
    ax.barh(places, lengths, color=FIRST, height=0.66, alpha=0.85)
    ax.grid(False, axis="y")
    ax.set_yticks(places, [short(label, 30) for label, _ in shown])
    ax.invert_yaxis()
    for place, value in zip(places, lengths, strict=True):
        ax.text(value, place, f" {value:.1f}", va="center", fontsize=9, color=INK)
    ax.axvline(mean, color=FAINT, lw=1.2, ls=":")
    ax.set_xlim(0, float(lengths.max()) * 1.1 + 1e-9)
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.set_xlabel(f"{what} [{unit}]")
    caption = f"The dotted line is the mean of all, {mean:.1f} {unit}."
    if len(shown) < len(ranked):
        caption += f" The {len(shown)} worst of {len(ranked)} {of}; the table has all of them."
    rows = [TableRow(label, (float(value),)) for label, value in ranked]
    every = details(f"All {len(ranked)} {of} in numbers", table((of.capitalize(), f"Mean, {unit}"), rows))
    return picture(drawing, f"Bars of {what} for each of the {of}, worst first", text(caption), name) + every


def curves(history: Sequence[tuple[float, float]], unit: str, what: str, remark: str = "") -> str:
    """The (training, validation) error of every epoch on a logarithmic axis; a note where there is none. ``remark`` ends the caption."""
    if not history:
        return note("These weights were not trained in this run, so there is no training history to show.")
    drawing, axes = figure(1, 1, 9.6, 3.2)
    ax = axes[0, 0]
    values = np.array(history, float)
    epochs = np.arange(1, len(values) + 1)
    best = int(np.argmin(values[:, 1]))
    marker = "o" if len(values) < 3 else None
    ax.plot(epochs, values[:, 0], color=SECOND, lw=1.5, ls=(0, (4, 2)), marker=marker, label="training")
    ax.plot(epochs, values[:, 1], color=FIRST, lw=1.8, marker=marker, label="validation")
    ax.plot(epochs[best], values[best, 1], "o", ms=7, mfc="none", mec=INK, mew=1.4)
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(plain_numbers())
    ax.yaxis.set_minor_formatter(plain_numbers("235"))
    ax.set_xlabel("epoch")
    ax.set_ylabel(f"{what} [{unit}]")
    ax.legend(frameon=False, labelcolor=INK)
    caption = (
        f"The ring marks the best epoch, {best + 1} of {len(values)}, with {values[best, 1]:.1f} {unit} on the validation part; "
        f"its weights are the ones kept. The test part is not used in training. {remark}"
    )
    return picture(
        drawing, "Curves of the training and validation error over the epochs", text(caption.strip()), "curves"
    )


_PLAIN_TEXT = {"text.parse_math": False, "text.usetex": False, "axes.formatter.use_mathtext": False}
"""Settings of matplotlib under which a name with $ is no formula, whatever the user's own settings."""


def figure(rows: int, columns: int, wide: float, high: float) -> tuple[Any, Any]:
    """An empty drawing of ``wide`` x ``high`` inches in the page's ink, without any global state, and its axes (rows, columns)."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_PLAIN_TEXT):
        drawing = Figure(figsize=(wide, high), layout="constrained", facecolor="none")
        FigureCanvasSVG(drawing)
        axes = drawing.subplots(rows, columns, squeeze=False)
    for ax in axes.ravel():
        ax.set_facecolor("none")
        ax.tick_params(which="both", colors=INK, labelsize=9)
        for side, spine in ax.spines.items():
            spine.set_color(FAINT)
            spine.set_visible(side in ("left", "bottom"))
        for label in (ax.xaxis.label, ax.yaxis.label):
            label.set_color(INK)
            label.set_fontsize(9.5)
        ax.set_axisbelow(True)
        ax.grid(True, color=FAINT, alpha=0.25, lw=0.6)
    return drawing, axes


def plain_numbers(digits: str = "123456789") -> Any:
    """Plain numbers at the ticks of a logarithmic axis, where they begin with one of ``digits``."""
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, _: f"{value:g}" if f"{value:.0e}"[0] in digits else "")


def picture(drawing: Any, alternative: str, caption: str, name: str) -> str:
    """A drawing as inline SVG with a caption (HTML): its text stays text, its ink becomes the page's, its ids start with ``name``.

    ``alternative`` describes the picture to who cannot see it.
    """
    import matplotlib
    from matplotlib.text import Text

    buffer = io.StringIO()
    look = {"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif"}
    with matplotlib.rc_context({**look, **_PLAIN_TEXT}):
        for label in drawing.findobj(Text):
            label.set_parse_math(False)
            label.set_usetex(False)
        drawing.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\s(xmlns(:\w+)?|version)="[^"]*"', "", svg)
    svg = svg.replace("xlink:href", "href").replace(INK, "currentColor")
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = svg.replace('href="#', f'href="#{name}-').replace("url(#", f"url(#{name}-")
    svg = re.sub(r" font-family: [^;\"]*;", "", svg)  # the page's own typeface
    size = re.search(r'<svg[^>]*?width="([\d.]+)pt"', svg)
    width = float(size.group(1)) if size else 700.0
    svg = re.sub(
        r'<svg[^>]*?(viewBox="[^"]*")[^>]*>',
        rf'<svg \1 role="img" aria-label="{text(alternative)}" style="width:100%;max-width:{width * 4 / 3:.0f}px">',
        svg,
        count=1,
    )
    return f"<figure>{svg.strip()}<figcaption>{caption}</figcaption></figure>"


def short(words: str, most: int) -> str:
    """At most ``most`` characters of a name, with an ellipsis where it was cut."""
    return words if len(words) <= most else words[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


_STYLE = """
:root { color-scheme: light dark; --page: #fbfbfa; --ink: #1d2026; --soft: #5c626c; --line: #dcdee2; --tile: #f1f2f3;
  --good: #146c2e; --good-back: #dff3e4; --bad: #a11a1a; --bad-back: #fbe3e1; --first: #b45309; --second: #1864ab; }
@media (prefers-color-scheme: dark) { :root { --page: #15171b; --ink: #e6e8ec; --soft: #a2a8b3; --line: #33373f;
  --tile: #1f2228; --good: #8fe0a6; --good-back: #173a23; --bad: #ffb3ad; --bad-back: #4b1d1b; --first: #f59f4a;
  --second: #74b9f5; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.55 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .5rem; letter-spacing: -.01em; }
h2 { font-size: 1.2rem; margin: 3rem 0 .6rem; padding-top: 1.1rem; border-top: 1px solid var(--line); }
p { margin: .5rem 0 1rem; max-width: 46rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .8rem; margin-top: 1.4rem; }
.tiles div { background: var(--tile); border-radius: .6rem; padding: .9rem 1.1rem; }
.tiles b { display: block; font-size: 1.65rem; font-weight: 650; font-variant-numeric: tabular-nums; }
.tiles span, figcaption { color: var(--soft); font-size: .9rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .93rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .42rem .9rem .42rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 500; }
thead th { color: var(--soft); font-size: .84rem; vertical-align: bottom; }
.n { text-align: right; white-space: nowrap; }
thead th.n { white-space: normal; }
.tests th { white-space: nowrap; }
tr.ours th, tr.ours td { font-weight: 650; }
.good, .bad { display: inline-block; padding: 0 .55em; border-radius: 1em; font-size: .86rem; font-weight: 600; }
.none { color: var(--soft); font-size: .86rem; white-space: nowrap; }
.good { color: var(--good); background: var(--good-back); }
.bad { color: var(--bad); background: var(--bad-back); }
.warning { border-left: .3rem solid var(--bad); padding: .6rem 1rem; background: var(--bad-back); color: var(--ink); }
.first { color: var(--first); } .second { color: var(--second); }
figure { margin: 1rem 0; } figure svg { display: block; height: auto; color: var(--ink); }
figcaption { max-width: 46rem; margin-top: .5rem; }
details { margin-top: .8rem; } summary { cursor: pointer; } details table { width: auto; min-width: 22rem; }
code { font-size: .92em; }
@media print { h2 { break-after: avoid; } figure, tr { break-inside: avoid; } }
"""
