# SPDX-License-Identifier: GPL-3.0-or-later
"""The quality suite that a user runs, and the card: how good a network is on motion it never saw.

Five tests with fixed thresholds are the floor below which a network is not fit for use. The sixth, Natural, asks whether it was
worth training: after its exact steps the body must be nearer to the captured pose than the best plain answer that gets the same
targets. The card shows the figures beside the plain answers, in millimetres of mean Euclidean distance, never squared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..core import forward_kinematics as fk
from ..core import rotations
from ..core.messages import counted
from ..learning import card as cards
from ..learning.card import Card, Data, Figure, Verdict
from ..motion.pose_set import PoseSet
from ..motion.splits import TEST, TRAIN, VALIDATION
from . import batches, errors, opinion, subsets
from .context import LAYOUTS, Samples, Targets, decode, features, prepare, targets_of
from .errors import PLAIN, REFINE_STEPS, SEED, STEPPED, Errors, predicted
from .losses import Truth
from .network import Network, forward
from .pose_prior import SEVERAL

HOLDOUT_MOST = 0.25  # [m]
INTERPOLATION_MOST = 0.30  # [m]
NOISE_MOST = 0.50  # [m] joint movement for one standard deviation of input noise
NOISE = 0.1  # standard deviations
FOLLOW_NOISE = 0.1  # [rad]
FOLLOW_ALL, FOLLOW_EACH = 0.8, 0.6  # gain of the effectors together, and of each
NATURAL_MOST = 1.0  # joint error after the exact steps, as a share of the best rival's
EXACT = 0.01  # [mm] joint errors below this are the same: where the targets determine the pose, everyone reaches it
RIVALS = ("nearest_steps", "classical_mean")  # of Natural
VERSION = "3"  # of what the card measures: raised when a figure is measured in another way


def parts_for(net: Network, poses: PoseSet) -> np.ndarray:
    """(F) the part of every frame as the network knows it: what it was trained or chosen on keeps its part, the rest is TEST.

    Clips are recognised by their content. Raises ValueError where nothing is left that the network never saw.
    """
    net.skeleton.require_same(poses.skeleton, "the training data")
    known = {clip["hash"]: clip["parts"] for clip in net.meta.get("data", {}).get("clips", [])}
    parts = np.full(poses.frames, TEST, np.int8)
    for c in range(len(poses.clip_names)):
        runs = known.get(poses.clip_hash(c))
        if runs is None:
            continue
        rows = poses.rows(c)
        if sum(count for count, _ in runs) != rows.stop - rows.start:
            raise ValueError(f"the weights do not say which frames of {poses.clip_names[c]} they saw; train again")
        parts[rows] = np.repeat([part for _, part in runs], [count for count, _ in runs])
    if not np.any(parts == TEST):
        raise ValueError(
            "these weights were trained on every frame of this data: nothing unseen is left to test on. "
            "Test on other motion, or train with some held out (--split block or clip, without --folds)"
        )
    return parts


def describe_split(poses: PoseSet, parts: np.ndarray, kind: str) -> dict[str, Any]:
    """What best.npy remembers of its data: content hashes, and the part of every clip as runs of [frames, part]."""
    clips = []
    for c, name in enumerate(poses.clip_names):
        own = parts[poses.rows(c)]
        ends = np.flatnonzero(np.diff(own, append=-1)) + 1
        runs = [
            [int(end - start), int(own[start])] for start, end in zip([0, *ends[:-1]], ends, strict=True) if end > start
        ]
        clips.append({"name": name, "hash": poses.clip_hash(c), "parts": runs})
    return {"hash": poses.content_hash(), "split": kind, "clips": clips}


def suite(net: Network, samples: Samples, rows: np.ndarray, poses: PoseSet) -> list[Verdict]:
    """The five tests with fixed thresholds, on the frames ``rows`` (the test part) of ``poses``, laid out as ``samples``."""
    rng = np.random.default_rng(SEED)
    targets, truth = batches.asked(net.layout, net.skeleton, samples, rows)
    return [
        _holdout(net, targets, truth),
        _interpolation(net, samples, rows, poses),
        _consistency(net, targets),
        _noise(net, targets, rng),
        _follow(net, samples, rows, rng),
    ]


def _holdout(net: Network, targets: Targets, truth: Truth) -> Verdict:
    score = float(predicted(net, targets, truth).effector.mean())
    sentence = f"mean effector error {score * 1000:.1f} mm on the test part"
    return Verdict("Holdout (FK)", score < HOLDOUT_MOST, score, HOLDOUT_MOST, sentence)


def _interpolation(net: Network, samples: Samples, rows: np.ndarray, poses: PoseSet) -> Verdict:
    halfway = _halfway(net, samples, rows, poses)
    if halfway is None:
        score, sentence = float("nan"), "no two test poses of one clip to go between"
    else:
        score = float(predicted(net, *halfway).effector.mean())
        sentence = f"mean effector error {score * 1000:.1f} mm halfway between test poses"
    return Verdict("Interpolation (FK)", score < INTERPOLATION_MOST, score, INTERPOLATION_MOST, sentence)


def _consistency(net: Network, targets: Targets) -> Verdict:
    inputs = features(net.layout, net.skeleton, targets)
    score = float(np.abs(forward(net, inputs) - forward(net, inputs.copy())).max())
    return Verdict("Consistency", score == 0, score, 0.0, f"same input twice: outputs differ by {score:g}", "=")


def _noise(net: Network, targets: Targets, rng: np.random.Generator) -> Verdict:
    inputs = features(net.layout, net.skeleton, targets)
    noise = rng.standard_normal(inputs.shape).astype(np.float32) * NOISE * net.deviation
    noise[:, net.deviation == 1] = 0  # flags, and inputs that never moved in training
    base = _heads(net, forward(net, inputs), targets)
    moved = _heads(net, forward(net, inputs + noise), targets)
    score = float(np.sqrt(np.sum((moved - base) ** 2, axis=0)).mean()) * net.skeleton.leg_length / NOISE
    sentence = f"joints move {score * 1000:.0f} mm for one standard deviation of input noise"
    return Verdict("Noise robustness", score < NOISE_MOST, score, NOISE_MOST, sentence)


def _follow(net: Network, samples: Samples, rows: np.ndarray, rng: np.random.Generator) -> Verdict:
    rig = net.skeleton
    bones = np.array(rig.effectors)
    posed, _, targets = batches.true_batch(rig, samples, rows)
    shaken = posed.copy()
    shaken[:, 1:] += rng.standard_normal(shaken[:, 1:].shape).astype(np.float32) * FOLLOW_NOISE
    turned, heads = fk.forward_components(rig, shaken, rig.offsets / rig.leg_length)
    stands = (samples.low, samples.grounded, samples.desired, samples.phase, samples.task)
    asked = targets_of(rig, turned, heads, *(a[rows] for a in stands))
    base = _heads(net, forward(net, features(net.layout, rig, targets)), targets)
    answer = _heads(net, forward(net, features(net.layout, rig, asked)), asked)
    should = asked.positions - targets.positions
    did = answer[:, bones] - base[:, bones]
    gains = np.sum(did * should, axis=(0, 2)) / np.maximum(np.sum(should * should, axis=(0, 2)), 1e-12)
    gain = float(np.sum(did * should) / max(float(np.sum(should * should)), 1e-12))
    worst = int(np.argmin(gains))
    return Verdict(
        "Follow",
        gain >= FOLLOW_ALL and bool(gains[worst] >= FOLLOW_EACH),
        gain,
        FOLLOW_ALL,
        f"targets that move are followed by {gain * 100:.0f} %, least by {rig.names[rig.effectors[worst]]} ({gains[worst] * 100:.0f} %, "
        f"at least {FOLLOW_EACH * 100:.0f} %)",
        ">=",
    )


def _halfway(net: Network, samples: Samples, rows: np.ndarray, poses: PoseSet) -> tuple[Targets, Truth] | None:
    pairs = []
    for c in np.unique(poses.clip[rows]):
        own = rows[poses.clip[rows] == c]
        pairs += [(own[i], own[len(own) - 1 - i]) for i in range(len(own) // 2)]
    if not pairs:
        return None
    a, b = np.array(pairs).T
    between = Samples(
        rot=rotations.slerp(samples.rot[a], samples.rot[b], 0.5).astype(np.float32),
        low=0.5 * (samples.low[a] + samples.low[b]),
        grounded=samples.grounded[a] * samples.grounded[b],
        desired=samples.desired[a] * samples.desired[b],
        phase=0.5 * (samples.phase[a] + samples.phase[b]),
        task=samples.task[a],
        heading=samples.heading[a],
        root_pos=samples.root_pos[a],
        ground=samples.ground[a],
    )
    return batches.asked(net.layout, net.skeleton, between, np.arange(len(a)))


def _heads(net: Network, outputs: np.ndarray, targets: Targets) -> np.ndarray:
    rot, shift = decode(net.layout, net.skeleton, outputs, targets.root)
    _, heads = fk.forward_components(net.skeleton, rot, net.skeleton.offsets / net.skeleton.leg_length)
    return heads if shift is None else heads + shift[:, None]


def natural(refined: Errors, rivals: dict[str, Errors | None]) -> Verdict:
    """The sixth test: after its exact steps the network's joint error (MPJPE) is below that of both RIVALS on the same frames.

    They are the nearest training frame and the classical solver from the mean pose, both with converged steps and with the very
    targets that the network has. Where the data holds no training frames neither exists: the test then counts neither as passed
    nor as failed.
    """
    values = {name: float(e.joints.mean()) * 1000 for name in RIVALS if (e := rivals[name]) is not None}
    if len(values) < len(RIVALS):
        sentence = "not measured: this data holds no training frames to compare with"
        return Verdict("Natural", None, float("nan"), NATURAL_MOST, sentence)
    own = float(refined.joints.mean()) * 1000
    score = own / max(min(values.values()), EXACT)
    words = f"{values['nearest_steps']:.1f} mm nearest training frame + steps, {values['classical_mean']:.1f} mm classical solver"
    if score < NATURAL_MOST:
        sentence = f"joints are off by {own:.1f} mm after {REFINE_STEPS} exact steps, against {words}"
    else:
        winner = min(values, key=lambda name: values[name])
        reason = {
            "nearest_steps": "copying the nearest training frame is at least as good",
            "classical_mean": "a solver that learned nothing is at least as good",
        }[winner]
        sentence = f"needs more motion or longer training: {reason} (joints off by {own:.1f} mm after {REFINE_STEPS} exact steps, {words})"
    return Verdict("Natural", score < NATURAL_MOST, score, NATURAL_MOST, sentence)


@dataclass(frozen=True)
class Measured:
    """Everything the card says of one network on one test part, frame by frame, so that folds can be pooled."""

    samples: dict[str, int]
    tests: list[Verdict]
    errors: dict[str, Errors | None]
    """holdout, refined, without_context and the plain answers; None where this data has no training frames for one."""
    clip: np.ndarray
    """(N) clip of each test frame."""
    compared: np.ndarray
    """(M) which of the test frames the answers with steps were measured on."""
    orientations: bool
    """The network and the answers with steps take the targets' orientations."""
    free_root: bool
    """The network and the answers with steps find the Hips themselves."""
    cpu_s: float
    """CPU seconds that measuring took."""
    subsets: list[dict[str, Any]] = field(default_factory=list)
    """Rows of :mod:`.subsets`."""


def measure(net: Network, poses: PoseSet, parts: np.ndarray, samples: Samples | None = None) -> Measured:
    """Score a network on the frames that ``parts`` marks TEST; TRAIN and VALIDATION frames only serve the plain answers."""
    began = time.process_time()
    rig = net.skeleton
    samples = prepare(poses) if samples is None else samples
    train, held, test = (np.flatnonzero(parts == part) for part in (TRAIN, VALIDATION, TEST))
    both = net.layout.orientations and not net.layout.free_root
    parted: dict[str, list[Errors]] = {}
    for rows in errors.chunks(test):
        targets, truth = batches.asked(net.layout, rig, samples, rows)
        parted.setdefault("holdout", []).append(predicted(net, targets, truth))
        for told in (True, False) if both else (True,):
            name = "refined" + ("" if told else errors.POSITIONS)
            parted.setdefault(name, []).append(errors.refined_errors(net, targets, truth, told))
    found: dict[str, Errors | None] = {name: errors.join(parts_) for name, parts_ in parted.items()}
    found["without_context"] = errors.without_context(net, samples, test)
    index = errors.compared(test)
    found |= _hypotheses(net, samples, test[index])
    found |= errors.plain_errors(rig, samples, train, held, test)
    found |= errors.stepped_errors(net.layout, rig, samples, train, test[index])
    if both:
        plain = errors.stepped_errors(LAYOUTS["positions"], rig, samples, train, test[index])
        found |= {name + errors.POSITIONS: value for name, value in plain.items()}
    if net.layout.mask and not net.layout.free_root:
        found |= errors.fewer_targets(net, samples, train, test)
    refined = found["refined"]
    assert refined is not None
    tests = [*suite(net, samples, test, poses), natural(refined.take(index), found)]
    few = [] if net.layout.free_root else subsets.measure(net, poses, samples, train, test)
    counts = {"train": len(train), "validation": len(held), "test": len(test)}
    spent = time.process_time() - began
    return Measured(
        counts, tests, found, poses.clip[test], index, net.layout.orientations, net.layout.free_root, spent, few
    )


def _hypotheses(net: Network, samples: Samples, rows: np.ndarray) -> dict[str, Errors | None]:
    """Errors where near frames propose beside the network, with and without the targets' rotations, on the frames ``rows``."""
    if net.prior is None or net.prior.frames is None:
        return {}
    found: dict[str, Errors | None] = {}
    for told in (True, False) if net.layout.orientations else (True,):
        parts = []
        for some in errors.chunks(rows):
            targets, truth = batches.asked(net.layout, net.skeleton, samples, some)
            parts.append(errors.refined_errors(net, targets, truth, told, SEVERAL))
        found["hypotheses" + ("" if told else errors.POSITIONS)] = errors.join(parts)
    return found


def figures(
    measured: Sequence[Measured],
    poses: PoseSet,
    split: str,
    *,
    files: Sequence[str] = (),
    seed: int = 0,
    trained_s: float = 0.0,
) -> dict[str, Any]:
    """The card as plain JSON values, pooled over all test frames of several folds (usually one).

    It is the document of :func:`~neural_network.learning.card.to_json`, and beside it the figures in the IK's own shape.
    A pooled test shows the fold that did worst, and passes where every fold passes. ``files`` are names of the data's files,
    ``trained_s`` [CPU s] is what training took.
    """
    pooled: dict[str, Errors | None] = {}
    for name in measured[0].errors:
        found = [m.errors[name] for m in measured]
        pooled[name] = errors.join([e for e in found if e is not None]) if all(e is not None for e in found) else None
    holdout, refined = pooled["holdout"], pooled["refined"]
    assert holdout is not None
    assert refined is not None
    clip = np.concatenate([m.clip for m in measured])
    samples: dict[str, Any] = {k: round(np.mean([m.samples[k] for m in measured])) for k in ("train", "validation")}
    samples.update(test=sum(m.samples["test"] for m in measured), split=split)
    if len(measured) > 1:
        samples["folds"] = len(measured)
    rates = np.unique(np.round(poses.clip_fps, 3))
    common = Card(
        wing="ik",
        version=VERSION,
        data=Data(
            files=tuple(files),
            frames=int(poses.frames),
            held_out=f"{counted(samples['test'], 'frame')} of {counted(len(np.unique(clip)), 'clip')} (split {split})",
            fps=float(rates[0]) if len(rates) == 1 else None,
        ),
        seed=seed,
        cpu_s=trained_s + sum(m.cpu_s for m in measured),
        figures=_judged(measured, pooled, clip),
        tests=tuple(_worst(results) for results in zip(*(m.tests for m in measured), strict=True)),
    )
    given = {name: _figures(e) for name, e in pooled.items() if name.startswith("given_")}
    return {
        **cards.to_json(common),
        **({"targets": given} if given else {}),
        "samples": samples,
        "body_length_mm": poses.skeleton.body_length * 1000,
        "holdout": holdout.figures(),
        "refined": _reached(refined),
        **_more(pooled),
        **({"subsets": rows} if (rows := _pooled_subsets([m.subsets for m in measured])) else {}),
        "without_context": _figures(pooled["without_context"]),
        "given": {"orientations": measured[0].orientations, "hips": not measured[0].free_root},
        "baselines": {name: _figures(pooled[name]) for name in (*PLAIN, *STEPPED)},
        "clips": {
            name: float(holdout.effector[:, clip == c].mean() * 1000)
            for c, name in enumerate(poses.clip_names)
            if np.any(clip == c)
        },
        "groups": groups(poses, clip, pooled),
    }


def _reached(errors: Errors) -> dict[str, Any]:
    return {**errors.figures(), "share_below_1mm": float((errors.effector.max(axis=0) < 1e-3).mean())}


def _more(pooled: dict[str, Errors | None]) -> dict[str, Any]:
    """Figures of answers that some layouts alone give: positions only, several hypotheses."""
    out: dict[str, Any] = {}
    alone = pooled.get("refined" + errors.POSITIONS)
    if alone is not None:
        plain = {name: _figures(pooled[name + errors.POSITIONS]) for name in STEPPED}
        out["refined_positions"] = {**_reached(alone), "baselines": plain}
    for name in ("hypotheses", "hypotheses" + errors.POSITIONS):
        several = pooled.get(name)
        if several is not None:
            out[name] = {**_reached(several), "count": SEVERAL}
    return out


def _pooled_subsets(folds: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Rows of several folds as one: means weighted by their frames."""
    out = []
    for rows in zip(*(rows for rows in folds if rows), strict=True):
        weight = np.array([row["frames"] for row in rows], float)
        mpjpe = {
            name: None if value is None else float(np.average([row["mpjpe_mm"][name] for row in rows], weights=weight))
            for name, value in rows[0]["mpjpe_mm"].items()
        }
        out.append({**rows[0], "frames": int(weight.sum()), "mpjpe_mm": mpjpe})
    return out


def failed(card: dict[str, Any]) -> list[str]:
    """Names of the card's tests that failed; a test that could not be measured has not."""
    return [test["name"] for test in card["tests"] if test["passed"] is False]


def _worst(results: Sequence[Verdict]) -> Verdict:
    """One test of several folds: the fold that did worst, passed where every fold passes."""
    low = results[0].sign == ">="  # more is better
    worst = (min if low else max)(results, key=lambda r: np.inf if np.isnan(r.score) else r.score)
    verdicts = [r.passed for r in results]
    return replace(worst, passed=False if False in verdicts else None if None in verdicts else True)


def _judged(measured: Sequence[Measured], pooled: dict[str, Errors | None], clip: np.ndarray) -> tuple[Figure, ...]:
    """The figures of the common card: beside the rivals on the same frames, with an interval over clips."""
    holdout = pooled["holdout"]
    refined = errors.join([e.take(m.compared) for m in measured if (e := m.errors["refined"]) is not None])
    compared = np.concatenate([m.clip[m.compared] for m in measured])
    names = dict(labels(measured[0].orientations, measured[0].free_root))
    rng = np.random.default_rng(SEED)

    def figure(
        name: str, unit: str, own: Errors, of: np.ndarray, rivals: Sequence[str], value: Callable[[Errors], np.ndarray]
    ) -> Figure:
        beside = {names[r]: float(value(e).mean()) for r in rivals if (e := pooled[r]) is not None}
        values = value(own)
        return Figure(name, float(values.mean()), unit, "lower", len(values), None, cards.ci95(values, of, rng), beside)

    assert holdout is not None
    alone = figure(
        "effector error, network alone", "mm", holdout, clip, PLAIN, lambda e: e.effector.mean(axis=0) * 1000
    )
    after = f"network + {REFINE_STEPS} exact steps"
    joints = figure(f"joint error (MPJPE), {after}", "mm", refined, compared, STEPPED, lambda e: e.joints * 1000)
    turns = figure(f"joint rotation error, {after}", "degrees", refined, compared, STEPPED, lambda e: e.rotation)
    rivals = [joints.rivals[names[name]] for name in RIVALS if names[name] in joints.rivals]
    bar = max(min(rivals), EXACT) if len(rivals) == len(RIVALS) else None
    more = [] if (ahead := _ahead(pooled, refined, compared, rng)) is None else [ahead]
    return replace(alone, bar=HOLDOUT_MOST * 1000), replace(joints, bar=bar), turns, *more


def _ahead(
    pooled: dict[str, Errors | None], refined: Errors, clip: np.ndarray, rng: np.random.Generator
) -> Figure | None:
    """By how much the joint error is below that of the nearest training frame with converged steps, with an interval over clips."""
    nearest = pooled["nearest_steps"]
    if nearest is None:
        return None
    gain = (nearest.joints - refined.joints) * 1000
    name = "joint error (MPJPE) below that of the nearest training frame + exact steps"
    return Figure(name, float(gain.mean()), "mm", "higher", len(gain), None, cards.ci95(gain, clip, rng), {})


def groups(poses: PoseSet, clip: np.ndarray, found: dict[str, Errors | None]) -> dict[str, dict[str, dict[str, Any]]]:
    """Mean effector errors [mm] by activity and, where clip names say a family ("family/take"), by family.

    ``clip`` (N) is the clip of each test frame. Kinds with a single group are left out.
    """
    kinds = {
        "activity": list(poses.clip_tasks),
        "family": [name.split("/")[0] if "/" in name else "" for name in poses.clip_names],
    }
    out: dict[str, dict[str, dict[str, Any]]] = {}
    for kind, labels in kinds.items():
        of_frame = np.array(labels)[clip]
        rows = {}
        for label in sorted(set(of_frame.tolist()) - {""}):
            mine = of_frame == label
            row: dict[str, Any] = {"frames": int(mine.sum())}
            for name in ("holdout", "refined", "nearest", "mean_pose"):
                own = found[name]
                row[name] = None if own is None else float(own.effector[:, mine].mean() * 1000)
            rows[label] = row
        if len(rows) > 1:
            out[kind] = rows
    return out


def _figures(errors: Errors | None) -> dict[str, Any] | None:
    return None if errors is None else errors.figures()


def labels(orientations: bool, free_root: bool) -> tuple[tuple[str, str], ...]:
    """(key, words) of every plain answer; those with steps say which information they share with the network."""
    told = ", orientations too" if orientations else ", positions only"
    told += ", Hips not given" if free_root else ""
    return (
        ("rest", "rest pose"),
        ("mean_pose", "mean pose"),
        ("nearest", "nearest training frame by positions"),
        ("ridge", "ridge regression"),
        ("classical_rest", f"classical solver from rest pose{told}"),
        ("classical_mean", f"classical solver from mean pose{told}"),
        ("nearest_steps", f"nearest training frame + exact steps{told}"),
    )


def rows_of(card: dict[str, Any]) -> list[tuple[str, dict[str, Any] | None]]:
    """(label, figures) of the network and of every plain answer, as tables show them; None: needs training frames."""
    given = card["given"]
    return [
        ("network alone", card["holdout"]),
        (f"network + {REFINE_STEPS} exact steps", card["refined"]),
        *((label, card[name]) for name, label in _MORE if name in card),
        ("network, ground/phase/task zeroed", card["without_context"]),
        *((label, card["baselines"][name]) for name, label in labels(given["orientations"], not given["hips"])),
    ]


_MORE = (
    ("hypotheses", f"the same with {SEVERAL} hypotheses"),
    ("refined_positions", f"network + {REFINE_STEPS} exact steps, positions only"),
    ("hypotheses" + errors.POSITIONS, f"the same with {SEVERAL} hypotheses"),
)


def text(card: dict[str, Any]) -> list[str]:
    """The suite and the card as lines for a terminal, a panel's text block or a log."""
    found = opinion.of(card)
    words = " ".join(part for part in (f"{found.level.capitalize()}.", found.reason, found.advice) if part)
    return [*cards.verdict_lines(cards.tests_from_json(card["tests"])), words, "", *table(card)]


def table(card: dict[str, Any]) -> list[str]:
    """The card's figures as lines: the network before and after refinement, and every plain answer."""
    samples, body = card["samples"], card["body_length_mm"]
    split = samples["split"] + (", LEAKY: neighbours of training frames" if samples["split"] == "frame" else "")
    folds = f", {counted(samples['folds'], 'fold')} pooled" if "folds" in samples else ""
    rows = rows_of(card)
    wide = max(len(label) for label, _ in rows) + 2
    lines = [f"On {counted(samples['test'], 'frame')} never trained on (split {split}{folds}):"]
    lines.append(f"{'':{wide}}{'effector error mm':>20}{'joints':>10}{'rotation':>10}{'effectors':>11}")
    lines.append(f"{'':{wide}}{'mean':>10}{'p95':>10}{'MPJPE mm':>10}{'degrees':>10}{'% of body':>11}")
    for label, found in rows:
        share = "" if found is None or "share_below_1mm" not in found else found["share_below_1mm"]
        within = "" if share == "" else f"   {share * 100:.1f} % with all targets within 1 mm"
        lines.append(_row(label, found, body, wide) + within)
    lines.append(
        "Exact steps reach the targets from any start; joints and rotation show whether the body then moves as it did."
    )
    lines.append(
        f"The body is {body / 1000:.2f} m long: its height at rest or, where that is more, its length from end to end."
    )
    lines += ["", *subsets.lines(card["subsets"])] if "subsets" in card else []
    if "targets" in card:
        lines += ["", "Fewer targets given, after 3 steps, beside the plain answers (Hips given to these):"]
        for name, found in card["targets"].items():
            count, _, plain = name.removeprefix("given_").partition("_")
            lines.append(_row(f"{count} of the targets, {plain.replace('_', ' ') or 'network'}", found, body, wide))
    return lines


def _row(label: str, found: dict[str, Any] | None, body: float, wide: int) -> str:
    if found is None:
        return f"{label:<{wide}}  (needs training frames in this data)"
    effector = found["effector_mm"]
    numbers = (effector["mean"], effector["p95"], found["mpjpe_mm"], found["rotation_deg"])
    hips = f"   hips {found['hips_mm']:.1f} mm" if "hips_mm" in found else ""
    return f"{label:<{wide}}" + "".join(f"{n:10.2f}" for n in numbers) + f"{effector['mean'] / body * 100:11.2f}" + hips
