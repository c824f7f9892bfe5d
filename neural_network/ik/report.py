# SPDX-License-Identifier: GPL-3.0-or-later
"""The IK report: the card of a network as a page, with the poses, errors and training behind it.

Generic parts come from :mod:`~neural_network.learning.page`; what knows poses is drawn here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import forward_kinematics as fk
from ..core.messages import counted
from ..core.skeleton import Skeleton
from ..learning import card as cards
from ..learning import page
from ..learning.layers import parameter_count
from ..learning.page import FIRST, INK, SECOND, TableRow
from ..motion.pose_set import PoseSet
from ..motion.splits import PART_NAMES, TEST
from . import batches, errors, quality
from .context import Samples
from .errors import REFINE_STEPS
from .network import Network, sizes

FRAMES_MOST = 5000  # test frames in the histogram, evenly spaced
PERCENTILES = (
    100,
    98,
    95,
    90,
    50,
    10,
)  # of the test frames' joint error after the exact steps: the poses that are drawn
ACROSS = 2  # poses beside each other
LEAKY = (
    "<strong>Leaky split.</strong> The test frames were drawn at random, so each has near-copies among the training frames. "
    "These figures flatter; measure with the split <code>block</code> or <code>clip</code>."
)


def check(command: str = "standalone_trainer.py") -> None:
    """Raise ValueError where the report cannot be drawn; call it before long work. ``command`` is what asks for it."""
    page.check(f"uv run --group report {command} --report report.html")


def html(
    net: Network, poses: PoseSet, samples: Samples, card: dict[str, Any], history: Sequence[tuple[float, float]]
) -> str:
    """The whole page for ``net`` tested on ``poses`` (laid out as ``samples``), whose figures are in ``card``.

    ``history`` holds (training, validation) error [m] of every epoch; empty where the weights come from elsewhere. Raises
    ValueError where matplotlib is missing.
    """
    check()
    held = _look(net, poses, samples)
    parts = [
        _head(net, card),
        page.section("Tests", page.tests_table(cards.tests_from_json(card["tests"]))),
        page.section("Errors, beside the plain answers", _figures(card), _lead(card)),
        page.section("Figures, bars and rivals", page.figures_table(cards.figures_from_json(card["figures"]))),
        page.section(
            "Test poses after the exact steps, the worst first",
            _nothing() if held is None else _poses(net, held, poses),
        ),
        page.section("Distribution of the errors", _nothing() if held is None else _histogram(held)),
        page.section("Error of each action", _actions(card)),
        *(page.section(f"Error by {kind}", _groups(found)) for kind, found in card.get("groups", {}).items()),
        page.section(
            "Training", page.curves([(a * 1000, b * 1000) for a, b in history], "mm", "effector error", _REMARK)
        ),
        page.section("Data, split and settings", _about(net, poses, card)),
    ]
    mean = card["holdout"]["effector_mm"]["mean"]
    leaky = card["samples"]["split"] == "frame"
    return page.page(f"Neural IK: {mean:.1f} mm {'(leaky split)' if leaky else 'on motion it never saw'}", parts)


@dataclass(frozen=True)
class _Held:
    """What the pictures need of the test frames."""

    rows: np.ndarray  # (N) rows of the PoseSet
    alone: np.ndarray  # (E, N) [m] of the effectors, the network alone
    exact: np.ndarray  # (E, N) [m] of the effectors, after the exact steps
    joints: np.ndarray  # (N) [m] mean of all joints, after the exact steps
    truth: np.ndarray  # (3, J, K) heads [m] of the poses that are drawn
    found: np.ndarray  # (3, J, K) after the exact steps
    network: np.ndarray  # (3, J, K) before them
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
    alone, exact, joints = [], [], []
    for part in errors.chunks(rows):
        targets, truth = batches.asked(net.layout, rig, samples, part)
        alone.append(errors.predicted(net, targets, truth).effector)
        after = errors.refined_errors(net, targets, truth)
        exact.append(after.effector)
        joints.append(after.joints)
    off = np.concatenate(joints)
    order = np.argsort(off, kind="stable")
    drawn = order[np.round(np.array(PERCENTILES) / 100 * (len(rows) - 1)).astype(int)]
    targets, truth = batches.asked(net.layout, rig, samples, rows[drawn])
    return _Held(
        rows,
        np.concatenate(alone, axis=1),
        np.concatenate(exact, axis=1),
        off,
        truth.heads * metres,
        _heads(net, *errors.refined(net, targets)) * metres,
        _heads(net, *batches.predict(net, targets)) * metres,
        targets.positions * metres,
        drawn,
    )


def _heads(net: Network, rot: np.ndarray, shift: np.ndarray | None) -> np.ndarray:
    _, heads = fk.forward_components(net.skeleton, rot, net.skeleton.offsets / net.skeleton.leg_length)
    return heads if shift is None else heads + shift[:, None]


# ---------------------------------------------------------------- the page's parts

_REMARK = (
    "Training poses are mixed and given noise anew each time, so they are harder than validation poses and their curve may lie "
    "above."
)


def _head(net: Network, card: dict[str, Any]) -> str:
    samples, own, exact = card["samples"], card["holdout"], card["refined"]
    tiles = [
        (f"{own['effector_mm']['mean']:.1f} mm", "mean effector error, network alone"),
        (f"{exact['effector_mm']['mean']:.2f} mm", f"after {REFINE_STEPS} exact steps"),
        (f"{exact['mpjpe_mm']:.1f} mm", "mean joint error (MPJPE) after them"),
    ]
    natural = next(test for test in cards.tests_from_json(card["tests"]) if test.name == "Natural")
    if natural.passed is not None:
        tiles.append(
            (f"{natural.score * 100:.0f} %", "of the joint error of the best plain answer with the same targets")
        )
    sentence = (
        f"{counted(net.skeleton.count, 'bone')}, {counted(len(net.skeleton.effectors), 'effector')}; "
        f"{counted(samples['test'], 'test frame')} of "
        f"{counted(len(card['clips']), 'action')} that this network never trained on."
    )
    warning = LEAKY if samples["split"] == "frame" else ""
    return page.header("Neural IK report", sentence, cards.tests_from_json(card["tests"]), tiles, warning)


def _figures(card: dict[str, Any]) -> str:
    rows = [(label, found, label.startswith("network")) for label, found in quality.rows_of(card)]
    for name, found in card.get("targets", {}).items():  # given_1, given_1_mean_pose, ...
        count, _, plain = name.removeprefix("given_").partition("_")
        words = plain.replace("_", " ") or f"network + {REFINE_STEPS} exact steps"
        rows.append((f"{count} target{'s' * (count != '1')} given: {words}", found, not plain))
    columns = ("Answer", "Effectors, mean mm", "p95 mm", "Joints (MPJPE) mm", "Rotation, degrees")
    out = page.table(columns, [_row(label, found, ours) for label, found, ours in rows])
    share = card["refined"].get("share_below_1mm")
    if share is not None:
        out += page.note(
            f"After {REFINE_STEPS} exact steps all targets lie within 1 mm in {share * 100:.1f} % of poses."
        )
    beside = card.get("beside")
    if beside:
        b = beside["holdout"]
        out += page.note(
            f"A second, shorter training held out whole clips ({', '.join(beside['clips'])}): mean "
            f"{b['effector_mm']['mean']:.1f} mm, p95 {b['effector_mm']['p95']:.1f} mm, MPJPE {b['mpjpe_mm']:.1f} mm."
        )
    return out


def _row(label: str, found: dict[str, Any] | None, ours: bool) -> TableRow:
    if found is None:
        return TableRow(label, ("needs training frames in this data",))
    effector = found["effector_mm"]
    if "hips_mm" in found:
        label += f" (Hips off by {found['hips_mm']:.1f} mm)"
    return TableRow(label, (effector["mean"], effector["p95"], found["mpjpe_mm"], found["rotation_deg"]), ours)


def _lead(card: dict[str, Any]) -> str:
    samples = card["samples"]
    folds = f", {counted(samples['folds'], 'fold')} pooled" if "folds" in samples else ""
    return (
        f"On {counted(samples['test'], 'test frame')} (split {samples['split']}{folds}). Distances are mean Euclidean distances. Answers "
        f"with steps get the same targets as the network and are measured on at most {errors.COMPARED_MOST:,} of these frames; the "
        "others are given the true Hips. Answers with steps reach their targets exactly and are judged by their joints: a body may "
        "hit every target and still stand as nobody would."
    )


def _groups(found: dict[str, dict[str, Any]]) -> str:
    columns = {
        "frames": "Test frames",
        "holdout": "Network alone, mm",
        "refined": f"+ {REFINE_STEPS} exact steps, mm",
        "own": "Network of its own, mm",
        "ratio": "Shared / own",
        "nearest": "Nearest training frame, mm",
        "mean_pose": "Mean pose, mm",
    }
    shown = [key for key in columns if any(row.get(key) is not None for row in found.values())]
    rows = [TableRow(label, tuple(row.get(key) for key in shown)) for label, row in found.items()]
    return page.table(("", *(columns[key] for key in shown)), rows)


def _about(net: Network, poses: PoseSet, card: dict[str, Any]) -> str:
    samples, train = card["samples"], card.get("train") or {}
    layers = sizes(net.skeleton, net.layout, net.hidden)
    arrow = " \N{RIGHTWARDS ARROW} "
    split = {
        "block": "block: the last stretch of every clip, with a gap before it",
        "clip": "clip: whole clips held out",
        "frame": "frame: random frames, LEAKY, neighbours of training frames",
        "unseen clips": "clips that these weights were not trained on",
    }.get(samples["split"], samples["split"])
    rows: list[tuple[str, str]] = [
        (
            "Data",
            f"{counted(len(poses.clip_names), 'clip')}, {counted(poses.frames, 'frame')}, content {poses.content_hash()}",
        ),
        ("Frame rates", ", ".join(f"{fps:g}" for fps in np.unique(np.round(poses.clip_fps, 3))) + " a second"),
        ("Split", split + (f"; {counted(samples['folds'], 'fold')}" if "folds" in samples else "")),
        ("Frames", ", ".join(f"{samples[name]:,} {name}" for name in PART_NAMES[1:] if name in samples)),
        ("Effectors", ", ".join(net.skeleton.names[e] for e in net.skeleton.effectors)),
        (
            "Network",
            f"{arrow.join(map(str, layers))}, {counted(parameter_count(layers), 'weight')}, layout {net.layout.name}",
        ),
    ]
    if train.get("epochs"):
        words = [f"{counted(round(train['epochs']), 'epoch')}", f"best at {train['best_epoch']:g}"]
        if train.get("cpu_seconds"):
            words.append(f"{train['cpu_seconds']:.0f} s of CPU, {train['samples_per_second']:,.0f} poses a second")
        rows.append(("Training", ", ".join(words)))
    config = net.meta.get("config", {})
    out = page.facts(rows)
    if config:
        settings = [(name.replace("_", " "), _plain(value)) for name, value in config.items()]
        out += page.details("Every setting", page.facts(settings))
    return out


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {number}" for name, number in value.items())
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


# ---------------------------------------------------------------- the pictures


def _poses(net: Network, held: _Held, poses: PoseSet) -> str:
    """Stick figures of the ranked test poses, captured and as they come out, each from the front and from the side."""
    count = len(held.drawn)
    lines = -(-count // ACROSS)
    figure, axes = page.figure(lines, 2 * ACROSS, 9.6, 4.4 * lines)
    points = np.concatenate([held.truth, held.found], axis=1)
    low, high = points.min(axis=1), points.max(axis=1)  # (3, K): each pose is centred, on its own lowest point
    half = 0.5 * (high - low)[:2].max(axis=0) + 0.06  # (K): each has a scale of its own
    tall = (high - low)[2] + 0.12
    words = []
    for k in range(count):
        mean = held.joints[held.drawn[k]] * 1000
        row = int(held.rows[held.drawn[k]])
        clip = int(poses.clip[row])
        frame = row - poses.rows(clip).start + 1
        rank = "the worst" if PERCENTILES[k] == 100 else f"worse than {PERCENTILES[k]} %"
        words.append(f"{rank}: {poses.clip_names[clip]}, frame {frame}, {mean:.1f} mm")
        for view, across in enumerate((0, 1)):
            ax = axes[k // ACROSS, 2 * (k % ACROSS) + view]
            _stick_figure(ax, net.skeleton, held, k, across)
            middle = 0.5 * (low + high)[across, k]
            ax.set_xlim(middle - half[k], middle + half[k])
            ax.set_ylim(low[2, k] - 0.06, low[2, k] - 0.06 + tall[k])
            ax.text(
                0.5, -0.02, ("front", "side")[view], transform=ax.transAxes, ha="center", fontsize=8, color=page.FAINT
            )
        ax = axes[k // ACROSS, 2 * (k % ACROSS)]
        title = f"{rank}: {mean:.1f} mm\n{page.short(poses.clip_names[clip], 26)}, frame {frame}"
        ax.set_title(title, fontsize=10, color=INK, loc="left")
    for spare in range(2 * count, axes.size):
        axes.flat[spare].set_axis_off()
    caption = (
        "Solid: the captured pose. <span class=first>Dashed: the pose after the exact steps</span>, as Live IK shows it. "
        "Dotted: the network before them. <span class=second>Rings: the targets.</span> Front view (its left is on the right), and "
        "side view (facing left). Frames are picked by rank of their mean joint error after the exact steps, not by looks: "
        f"{page.text('; '.join(words))}."
    )
    words_for_it = "Stick figures of test poses, captured and after the exact steps, the worst first"
    return page.picture(figure, words_for_it, caption, "poses")


def _stick_figure(ax: Any, rig: Skeleton, held: _Held, k: int, across: int) -> None:
    """Pose ``k`` as it was captured, as the network says and as it comes out, with its targets; ``across`` is the axis to the right."""
    bones = np.array([(int(p), j) for j, p in enumerate(rig.parents) if p >= 0])
    for heads, look in (
        (held.network, {"color": page.FAINT, "lw": 1.0, "ls": ":"}),
        (held.truth, {"color": INK, "lw": 2.0, "solid_capstyle": "round"}),
        (held.found, {"color": FIRST, "lw": 1.8, "ls": (0, (2.2, 1.4))}),
    ):
        lines = np.full((2, len(bones), 3), np.nan)  # from head to head, and a gap before the next bone
        lines[:, :, :2] = heads[[across, 2], :, k][:, bones]
        ax.plot(*lines.reshape(2, -1), **look)
    ring = {"mfc": "none", "mec": SECOND, "ms": 7.5, "mew": 1.4, "clip_on": False}
    ax.plot(held.targets[across, :, k], held.targets[2, :, k], "o", **ring)
    ax.set_aspect("equal")
    ax.set_axis_off()


def _histogram(held: _Held) -> str:
    series = {"network alone": held.alone * 1000, f"after {REFINE_STEPS} exact steps": held.exact * 1000}
    return page.histogram(
        series, "mm", "effector error", f"the effectors in {counted(len(held.rows), 'test frame')}", "errors"
    )


def _actions(card: dict[str, Any]) -> str:
    if not card["clips"]:
        return _nothing()
    mean = card["holdout"]["effector_mm"]["mean"]
    return page.bars(card["clips"], mean, "mm", "mean effector error of the network alone", "actions", "actions")


def _nothing() -> str:
    return page.note(
        "These weights were fitted on every clip of this data, so no frame is left that they never saw. The figures above come "
        "from other networks of the same settings, one for each fold."
    )
