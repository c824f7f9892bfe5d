# SPDX-License-Identifier: GPL-3.0-or-later
"""The report: one HTML file that shows how good a network is, complete by itself, for light and dark screens.

Pictures are drawn by matplotlib, which is asked for only here and only when a report is wanted. Every picture has its
figures in words or in a table beside it, so nothing is said by colour alone.
"""

from __future__ import annotations

import html as escaping
import importlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import forward_kinematics as fk
from ..core.skeleton import Skeleton
from ..motion.pose_set import PoseSet
from ..motion.splits import PART_NAMES, TEST
from . import batches, quality
from .context import Samples, Targets
from .network import Network, parameter_count, sizes

FRAMES_MOST = 5000  # test frames that the histogram looks at, evenly spaced
ACTIONS_MOST = 30  # bars in the picture of actions; the table beside it has them all
PERCENTILES = (5, 25, 50, 75, 95, 100)  # of the test frames' error: the poses that are drawn
INK = "#0f0f0f"  # stands for the page's own text colour, so that pictures suit a light and a dark page
ALONE, EXACT = "#d0620a", "#1c7ed6"  # network alone, after the exact steps: told apart in both, and by the colour-blind
FAINT = "#8a8f98"


def check() -> None:
    """Raise ValueError in words where the report cannot be drawn; call it before long work."""
    try:
        importlib.import_module("matplotlib")
    except ImportError:
        raise ValueError(
            "the report needs matplotlib: uv run --group report standalone_trainer.py --report report.html "
            "(or pip install matplotlib)"
        ) from None


def html(
    net: Network, poses: PoseSet, samples: Samples, card: dict[str, Any], history: Sequence[tuple[float, float]]
) -> str:
    """The whole page for ``net`` tested on ``poses`` (laid out as ``samples``), whose figures are in ``card``.

    ``history`` holds (training, validation) error [m] of every epoch; empty where the weights come from elsewhere. Raises
    ValueError where matplotlib is missing.
    """
    check()
    held = _look(net, poses, samples)
    split = card["samples"]["split"]
    parts = [
        _head(net, poses, card),
        _section("Tests", _tests(card)),
        _section("How far off, beside the plain answers", _figures(card), _caption_figures(card)),
        _section("Test poses, from the best to the worst", _poses(net.skeleton, held, poses)),
        _section("Spread of the errors", _histogram(held)),
        _section("Error of each action", _actions(card)),
        *(_section(f"Error by {kind}", _groups(found)) for kind, found in card.get("groups", {}).items()),
        _section("Training", _curves(history)),
        _section("Data, split and settings", _about(net, poses, card)),
    ]
    title = f"Neural IK: {card['holdout']['effector_mm']['mean']:.1f} mm on motion it never saw"
    if split == "frame":
        title = f"Neural IK: {card['holdout']['effector_mm']['mean']:.1f} mm (leaky split)"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n'
        f"</head>\n<body>\n<main>\n" + "\n".join(parts) + "\n</main>\n</body>\n</html>\n"
    )


@dataclass(frozen=True)
class _Held:
    """What the pictures need of the test frames."""

    rows: np.ndarray  # (N) rows of the PoseSet
    alone: np.ndarray  # (E, N) [m]
    exact: np.ndarray  # (E, N) [m]
    truth: np.ndarray  # (3, J, K) heads [m] of the poses that are drawn
    found: np.ndarray  # (3, J, K)
    targets: np.ndarray  # (3, E, K)
    drawn: np.ndarray  # (K) which of ``rows``


def _look(net: Network, poses: PoseSet, samples: Samples) -> _Held | None:
    """Errors of the frames this network never saw, frame by frame; None where there are none (weights fitted on all clips)."""
    try:
        rows = np.flatnonzero(quality.parts_for(net, poses) == TEST)
    except ValueError:
        return None
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), FRAMES_MOST)).round().astype(int)]
    rig, metres = net.skeleton, net.skeleton.leg_length
    alone, exact = [], []
    for part in quality.chunks(rows):
        targets, truth = batches.asked(net.layout, rig, samples, part)
        alone.append(quality.predicted(net, targets, truth).effector)
        exact.append(quality.refined_errors(net, targets, truth).effector)
    errors = np.concatenate(alone, axis=1)
    order = np.argsort(errors.mean(axis=0), kind="stable")
    drawn = order[np.round(np.array(PERCENTILES) / 100 * (len(rows) - 1)).astype(int)]
    targets, truth = batches.asked(net.layout, rig, samples, rows[drawn])
    return _Held(
        rows,
        errors,
        np.concatenate(exact, axis=1),
        truth.heads * metres,
        _heads(net, targets) * metres,
        targets.positions * metres,
        drawn,
    )


def _heads(net: Network, targets: Targets) -> np.ndarray:
    rot, shift = batches.predict(net, targets)
    _, heads = fk.forward_components(net.skeleton, rot, net.skeleton.offsets / net.skeleton.leg_length)
    return heads if shift is None else heads + shift[:, None]


# ---------------------------------------------------------------- the page's parts


def _head(net: Network, poses: PoseSet, card: dict[str, Any]) -> str:
    samples, own, exact = card["samples"], card["holdout"], card["refined"]
    passed = sum(test["passed"] for test in card["tests"])
    of = len(card["tests"])
    nearest = (card["baselines"].get("nearest") or {}).get("effector_mm")
    tiles = [
        (f"{own['effector_mm']['mean']:.1f} mm", "mean effector error, network alone"),
        (f"{exact['effector_mm']['mean']:.2f} mm", f"after {quality.REFINE_STEPS} exact steps"),
        (f"{exact['mpjpe_mm']:.1f} mm", "joints off the captured pose after them (MPJPE)"),
    ]
    if nearest:
        ratio = nearest["mean"] / max(own["effector_mm"]["mean"], 1e-9)
        tiles.append((f"{ratio:.1f}\N{MULTIPLICATION SIGN}", "nearer than the nearest training frame"))
    badge = "good" if passed == of else "bad"
    lines = [
        "<header>",
        "<h1>Neural IK report</h1>",
        f"<p>{net.skeleton.count} bones, {len(net.skeleton.effectors)} effectors; {samples['test']:,} test frames of "
        f"{len(card['clips'])} action{'s' * (len(card['clips']) != 1)} that this network never trained on. "
        f'<span class="{badge}">{passed} of {of} tests passed</span></p>',
    ]
    if samples["split"] == "frame":
        lines.append(
            '<p class="warning"><strong>Leaky split.</strong> The test frames were drawn at random, so each has near-copies '
            "among the training frames. These figures flatter; measure with the split <code>block</code> or "
            "<code>clip</code>.</p>"
        )
    found = "".join(f"<div><b>{_text(value)}</b><span>{_text(label)}</span></div>" for value, label in tiles)
    return "\n".join([*lines, f'<div class="tiles">{found}</div>', "</header>"])


def _tests(card: dict[str, Any]) -> str:
    signs = {"Follow": "\N{GREATER-THAN OR EQUAL TO}", "Consistency": "="}
    rows = []
    for test in card["tests"]:
        word, kind = ("pass", "good") if test["passed"] else ("FAIL", "bad")
        rows.append(
            f'<tr><td><span class="{kind}">{word}</span></td><th scope="row">{_text(test["name"])}</th>'
            f"<td class=n>{quality.score_text(test)}</td><td class=n>{signs.get(test['name'], '&lt;')} {test['threshold']:g}</td>"
            f"<td>{_text(test['sentence'])}</td></tr>"
        )
    head = "<tr><th scope=col>Result</th><th scope=col>Test</th><th scope=col class=n>Score</th>"
    head += "<th scope=col class=n>Needed</th><th scope=col>In words</th></tr>"
    return f'<div class="wide"><table class="tests"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'


def _figures(card: dict[str, Any]) -> str:
    share = card["refined"].get("share_below_1mm")
    rows = [
        ("network alone", card["holdout"], "ours"),
        (f"network + {quality.REFINE_STEPS} exact steps", card["refined"], "ours"),
        ("network, ground, phase and task zeroed", card.get("without_context"), "ours"),
        *((label, card["baselines"].get(name), "") for name, label in quality.ROWS),
    ]
    for name, figures in card.get("targets", {}).items():  # given_1, given_1_mean_pose, ...
        count, _, plain = name.removeprefix("given_").partition("_")
        words = plain.replace("_", " ") or f"network + {quality.REFINE_STEPS} exact steps"
        rows.append((f"{count} target{'s' * (count != '1')} given: {words}", figures, "" if plain else "ours"))
    out = []
    for label, figures, kind in rows:
        if figures is None:
            out.append(
                f'<tr><th scope="row">{_text(label)}</th><td colspan=4>needs training frames in this data</td></tr>'
            )
            continue
        effector = figures["effector_mm"]
        numbers = (
            effector["mean"],
            effector["p95"],
            figures["mpjpe_mm"],
            figures["rotation_deg"],
        )
        cells = "".join(f"<td class=n>{number:,.2f}</td>" for number in numbers)
        if "hips_mm" in figures:
            label += f" (Hips off by {figures['hips_mm']:.1f} mm)"
        out.append(f'<tr class="{kind}"><th scope="row">{_text(label)}</th>{cells}</tr>')
    head = "<tr><th scope=col>Answer</th>" + "".join(
        f"<th scope=col class=n>{word}</th>"
        for word in ("Effectors, mean mm", "p95 mm", "Joints (MPJPE) mm", "Rotation, degrees")
    )
    table = f'<div class="wide"><table><thead>{head}</tr></thead><tbody>{"".join(out)}</tbody></table></div>'
    if share is not None:
        table += f"<p>After {quality.REFINE_STEPS} exact steps all targets lie within 1 mm in {share * 100:.1f} % of poses.</p>"
    beside = card.get("beside")
    if beside:
        b = beside["holdout"]
        clips = ", ".join(beside["clips"])
        table += (
            f"<p>A second, shorter training held out whole clips ({_text(clips)}): mean "
            f"{b['effector_mm']['mean']:.1f} mm, p95 {b['effector_mm']['p95']:.1f} mm, MPJPE {b['mpjpe_mm']:.1f} mm.</p>"
        )
    return table


def _caption_figures(card: dict[str, Any]) -> str:
    samples = card["samples"]
    folds = f", {samples['folds']} folds pooled" if "folds" in samples else ""
    return (
        f"On {samples['test']:,} test frames (split {samples['split']}{folds}). Distances are mean Euclidean distances; every "
        "answer gets the same targets and the same Hips. The classical rows reach their targets exactly and are judged by "
        "their joints: a body may hit every target and still stand like nobody."
    )


def _about(net: Network, poses: PoseSet, card: dict[str, Any]) -> str:
    samples, train = card["samples"], card.get("train") or {}
    layers = sizes(net.skeleton, net.layout, net.hidden)
    arrow = " \N{RIGHTWARDS ARROW} "
    split = {
        "block": "block: the last stretch of every clip, with a gap before it",
        "clip": "clip: whole clips held out",
        "frame": "frame: random frames, LEAKY, neighbours of training frames",
        "unseen clips": "clips that these weights never knew",
    }.get(samples["split"], samples["split"])
    rows: list[tuple[str, str]] = [
        ("Data", f"{len(poses.clip_names)} clips, {poses.frames:,} frames, content {poses.content_hash()}"),
        ("Frame rates", ", ".join(f"{fps:g}" for fps in np.unique(np.round(poses.clip_fps, 3))) + " a second"),
        ("Split", split + (f"; {samples['folds']} folds" if "folds" in samples else "")),
        ("Frames", ", ".join(f"{samples[name]:,} {name}" for name in PART_NAMES[1:] if name in samples)),
        ("Effectors", ", ".join(net.skeleton.names[e] for e in net.skeleton.effectors)),
        ("Network", f"{arrow.join(map(str, layers))}, {parameter_count(layers):,} weights, layout {net.layout.name}"),
    ]
    if train.get("epochs"):
        words = [f"{train['epochs']:g} epochs", f"best at {train['best_epoch']:g}"]
        if train.get("cpu_seconds"):
            words.append(f"{train['cpu_seconds']:.0f} s of CPU, {train['samples_per_second']:,.0f} poses a second")
        rows.append(("Training", ", ".join(words)))
    config = net.meta.get("config", {})
    settings = "".join(
        f"<tr><th scope=row>{_text(name.replace('_', ' '))}</th><td>{_text(_plain(value))}</td></tr>"
        for name, value in config.items()
    )
    found = "".join(f"<tr><th scope=row>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in rows)
    out = f'<div class="wide"><table><tbody>{found}</tbody></table></div>'
    if settings:
        out += f"<details><summary>Every setting</summary><table><tbody>{settings}</tbody></table></details>"
    return out


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {number}" for name, number in value.items())
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


# ---------------------------------------------------------------- the pictures


def _poses(rig: Skeleton, held: _Held | None, poses: PoseSet) -> str:
    if held is None:
        return _nothing()
    count = len(held.drawn)
    figure, axes = _figure(2, count, 9.6, 4.8)
    points = np.concatenate([held.truth, held.found], axis=1)
    low, high = (
        points.min(axis=1),
        points.max(axis=1),
    )  # (3, K): each pose stands in the middle, on its own lowest point
    half = 0.5 * float((high - low)[:2].max()) + 0.06
    tall = float((high - low)[2].max()) + 0.12
    bones = np.array([(int(p), j) for j, p in enumerate(rig.parents) if p >= 0])
    words = []
    for k in range(count):
        mean = held.alone[:, held.drawn[k]].mean() * 1000
        name = poses.clip_names[int(poses.clip[held.rows[held.drawn[k]]])]
        rank = "worst" if PERCENTILES[k] == 100 else f"{PERCENTILES[k]} %"
        words.append(f"{rank}: {name}, {mean:.1f} mm")
        for view, across in enumerate((0, 1)):
            ax = axes[view, k]
            for heads, look in (
                (held.truth, {"color": INK, "lw": 1.6, "solid_capstyle": "round"}),
                (held.found, {"color": ALONE, "lw": 1.5, "ls": (0, (2.2, 1.4))}),
            ):
                lines = np.full((2, len(bones), 3), np.nan)  # from head to head, and a gap before the next bone
                lines[:, :, :2] = heads[[across, 2], :, k][:, bones]
                ax.plot(*lines.reshape(2, -1), **look)
            ax.plot(
                held.targets[across, :, k],
                held.targets[2, :, k],
                "o",
                mfc="none",
                mec=EXACT,
                ms=6.5,
                mew=1.3,
                clip_on=False,
            )
            middle = 0.5 * (low + high)[across, k]
            ax.set_xlim(middle - half, middle + half)
            ax.set_ylim(low[2, k] - 0.06, low[2, k] - 0.06 + tall)
            ax.set_aspect("equal")
            ax.set_axis_off()
        short = name if len(name) <= 16 else name[:15] + "\N{HORIZONTAL ELLIPSIS}"
        axes[0, k].set_title(f"{rank}\n{short}\n{mean:.1f} mm", fontsize=9, color=INK)
    for view, word in enumerate(("front", "side")):
        axes[view, 0].text(
            0.0,
            0.5,
            word,
            transform=axes[view, 0].transAxes,
            rotation=90,
            va="center",
            ha="right",
            fontsize=9,
            color=FAINT,
        )
    caption = (
        "Solid: the captured pose. <span class=alone>Dashed: the network alone</span>, before any exact step. "
        "<span class=exact>Rings: the targets.</span> Front view (its left is on the right) above, side view (facing left) "
        "below. Frames are picked by rank of their mean effector error, not by looks: "
        f"{_text('; '.join(words))}."
    )
    return _picture(
        figure, "Stick figures of test poses, true and predicted, from the front and from the side", caption, "poses"
    )


def _histogram(held: _Held | None) -> str:
    if held is None:
        return _nothing()
    figure, axes = _figure(1, 1, 9.6, 2.9)
    ax = axes[0, 0]
    least = 1e-3
    series = (
        ("network alone", held.alone * 1000, ALONE, "--"),
        (f"after {quality.REFINE_STEPS} exact steps", held.exact * 1000, EXACT, "-"),
    )
    top = max(float(values.max()) for _, values, _, _ in series)
    edges = np.geomspace(least, max(top * 1.05, 10 * least), 61)
    words = []
    for label, values, color, line in series:
        flat = np.maximum(values.ravel(), least)
        share = np.histogram(flat, edges)[0] / flat.size * 100
        ax.stairs(share, edges, fill=True, color=color, alpha=0.3, lw=0)
        ax.stairs(share, edges, color=color, lw=1.6, ls=line, label=label)
        mean, p95 = float(values.mean()), float(np.percentile(values, 95))
        ax.axvline(p95, color=color, lw=1.2, ls=":")
        words.append(f"{label}: mean {mean:.3g} mm, median {np.median(values):.3g} mm, p95 {p95:.3g} mm (dotted)")
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(_numbers())
    ax.set_xlim(edges[0], edges[-1])
    ax.set_xlabel("effector error [mm]")
    ax.set_ylabel("share of effectors [%]")
    ax.legend(frameon=False, labelcolor=INK, loc="upper left")
    caption = (
        _text("; ".join(words))
        + f". Every effector of {len(held.rows):,} test frames; errors below 0.001 mm stand at the left edge."
    )
    return _picture(figure, "Histogram of effector errors before and after the exact steps", caption, "errors")


def _actions(card: dict[str, Any]) -> str:
    clips = sorted(card["clips"].items(), key=lambda item: -item[1])
    if not clips:
        return _nothing()
    shown = clips[:ACTIONS_MOST]
    figure, axes = _figure(1, 1, 9.6, 0.6 + 0.24 * len(shown))
    ax = axes[0, 0]
    places = np.arange(len(shown))
    values = np.array([value for _, value in shown])
    ax.barh(places, values, color=ALONE, height=0.66, alpha=0.85)
    ax.grid(False, axis="y")
    ax.set_yticks(places, [name if len(name) <= 30 else name[:29] + "\N{HORIZONTAL ELLIPSIS}" for name, _ in shown])
    ax.invert_yaxis()
    for place, value in zip(places, values, strict=True):
        ax.text(value, place, f" {value:.1f}", va="center", fontsize=9, color=INK)
    mean = card["holdout"]["effector_mm"]["mean"]
    ax.axvline(mean, color=FAINT, lw=1.2, ls=":")
    ax.set_xlim(0, float(values.max()) * 1.1 + 1e-9)
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.set_xlabel("mean effector error of the network alone [mm]")
    caption = f"The dotted line is the mean over all test frames, {mean:.1f} mm."
    if len(shown) < len(clips):
        caption += f" The {len(shown)} worst of {len(clips)} actions; the table has all of them."
    rows = "".join(f"<tr><th scope=row>{_text(name)}</th><td class=n>{value:.2f}</td></tr>" for name, value in clips)
    table = (
        f"<details><summary>All {len(clips)} actions in figures</summary><table><thead><tr><th scope=col>Action</th>"
        f"<th scope=col class=n>Mean error, mm</th></tr></thead><tbody>{rows}</tbody></table></details>"
    )
    return _picture(figure, "Bars of the mean effector error of each action, worst first", caption, "actions") + table


def _groups(found: dict[str, dict[str, Any]]) -> str:
    columns = {
        "frames": "Test frames",
        "holdout": "Network alone, mm",
        "refined": f"+ {quality.REFINE_STEPS} exact steps, mm",
        "own": "Network of its own, mm",
        "ratio": "Shared / own",
        "nearest": "Nearest training frame, mm",
        "mean_pose": "Mean pose, mm",
    }
    shown = [key for key in columns if any(row.get(key) is not None for row in found.values())]
    head = "<th scope=col></th>" + "".join(f"<th scope=col class=n>{columns[key]}</th>" for key in shown)
    lines = []
    for label, row in found.items():
        cells = "".join(f"<td class=n>{_cell(row.get(key))}</td>" for key in shown)
        lines.append(f'<tr><th scope="row">{_text(label)}</th>{cells}</tr>')
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _curves(history: Sequence[tuple[float, float]]) -> str:
    if not history:
        return "<p>These weights were tested, not trained, in this run: there is no course of training to show.</p>"
    figure, axes = _figure(1, 1, 9.6, 3.2)
    ax = axes[0, 0]
    values = np.array(history, float) * 1000
    epochs = np.arange(1, len(values) + 1)
    best = int(np.argmin(values[:, 1]))
    marker = "o" if len(values) < 3 else None
    ax.plot(epochs, values[:, 0], color=EXACT, lw=1.5, ls=(0, (4, 2)), marker=marker, label="training, augmented poses")
    ax.plot(epochs, values[:, 1], color=ALONE, lw=1.8, marker=marker, label="validation")
    ax.plot(epochs[best], values[best, 1], "o", ms=7, mfc="none", mec=INK, mew=1.4)
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(_numbers())
    ax.yaxis.set_minor_formatter(_numbers("235"))
    ax.set_xlabel("epoch")
    ax.set_ylabel("effector error [mm]")
    ax.legend(frameon=False, labelcolor=INK)
    caption = (
        f"The ring marks the best epoch, {best + 1} of {len(values)}, with {values[best, 1]:.1f} mm on the validation part; its "
        "weights are the ones kept. Training poses are mixed and shaken anew each time, so they are harder than "
        "validation poses and their curve may run above. The test part takes no part in any of this."
    )
    return _picture(figure, "Curves of the training and validation error over the epochs", caption, "curves")


def _nothing() -> str:
    return (
        "<p>These weights were fitted on every clip of this data, so no frame is left that they never saw. The figures above "
        "come from other networks of the same settings, one for each fold.</p>"
    )


def _figure(rows: int, columns: int, wide: float, high: float) -> tuple[Any, Any]:
    """A figure in the page's own ink, without a window or any global state, and its axes (rows, columns)."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(wide, high), layout="constrained", facecolor="none")
    FigureCanvasSVG(figure)
    axes = figure.subplots(rows, columns, squeeze=False)
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
    return figure, axes


def _numbers(digits: str = "123456789") -> Any:
    """Plain numbers at the ticks of a logarithmic axis, where they begin with one of ``digits``."""
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, _: f"{value:g}" if f"{value:.0e}"[0] in digits else "")


def _picture(figure: Any, alternative: str, caption: str, name: str) -> str:
    """A figure as inline SVG whose text is text, whose ink is the page's, and whose ids are its own."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
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
        rf'<svg \1 role="img" aria-label="{_text(alternative)}" style="width:100%;max-width:{width * 4 / 3:.0f}px">',
        svg,
        count=1,
    )
    return f"<figure>{svg.strip()}<figcaption>{caption}</figcaption></figure>"


def _section(title: str, body: str, caption: str = "") -> str:
    said = f"<p>{caption}</p>" if caption else ""
    return f"<section>\n<h2>{_text(title)}</h2>\n{said}{body}\n</section>"


def _text(words: str) -> str:
    return escaping.escape(words)


_STYLE = """
:root { color-scheme: light dark; --page: #fbfbfa; --ink: #1d2026; --soft: #5c626c; --line: #dcdee2; --tile: #f1f2f3;
  --good: #146c2e; --good-back: #dff3e4; --bad: #a11a1a; --bad-back: #fbe3e1; --alone: #b45309; --exact: #1864ab; }
@media (prefers-color-scheme: dark) { :root { --page: #15171b; --ink: #e6e8ec; --soft: #a2a8b3; --line: #33373f;
  --tile: #1f2228; --good: #8fe0a6; --good-back: #173a23; --bad: #ffb3ad; --bad-back: #4b1d1b; --alone: #f59f4a;
  --exact: #74b9f5; } }
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
.good { color: var(--good); background: var(--good-back); }
.bad { color: var(--bad); background: var(--bad-back); }
.warning { border-left: .3rem solid var(--bad); padding: .6rem 1rem; background: var(--bad-back); color: var(--ink); }
.alone { color: var(--alone); } .exact { color: var(--exact); }
figure { margin: 1rem 0; } figure svg { display: block; height: auto; color: var(--ink); }
figcaption { max-width: 46rem; margin-top: .5rem; }
details { margin-top: .8rem; } summary { cursor: pointer; } details table { width: auto; min-width: 22rem; }
code { font-size: .92em; }
@media print { h2 { break-after: avoid; } figure, tr { break-inside: avoid; } }
"""
