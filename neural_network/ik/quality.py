# SPDX-License-Identifier: GPL-3.0-or-later
"""The quality suite that a user runs, and the honest card: how good a network is on motion it never saw.

Five tests with fixed thresholds say whether a network is fit for use; the card says how good it is, beside the plain
answers that it must beat. Figures are in metres or millimetres of mean Euclidean distance, never squared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core import forward_kinematics as fk
from ..core import rotations
from ..core.skeleton import Skeleton
from ..motion.pose_set import PoseSet
from ..motion.splits import TEST, TRAIN, VALIDATION
from . import baselines, batches, refinement
from .context import LAYOUTS, Samples, Targets, decode, features, prepare, targets_of
from .losses import Truth
from .network import Network, forward

HOLDOUT_MOST = 0.25  # [m]
INTERPOLATION_MOST = 0.30  # [m]
NOISE_MOST = 0.50  # [m] joint movement for one standard deviation of input noise
NOISE = 0.1  # standard deviations
FOLLOW_NOISE = 0.1  # [rad]
FOLLOW_ALL, FOLLOW_EACH = 0.8, 0.6  # gain of the effectors together, and of each
REFINE_STEPS = 3
CLASSICAL_MOST = 2000  # test frames that the slow classical rows look at, evenly spaced
SEED = 20  # of the suite's own noise: the same figures twice


@dataclass(frozen=True)
class Result:
    """One test of the suite."""

    name: str
    passed: bool
    score: float
    threshold: float
    sentence: str


@dataclass(frozen=True)
class Errors:
    """Errors of poses against the truth, frame by frame."""

    effector: np.ndarray
    """(E, N) [m]"""
    joints: np.ndarray
    """(N) [m] mean over the heads of all bones but the Hips."""
    rotation: np.ndarray
    """(N) [degrees] mean geodesic angle of the bones' own rotations, the Hips left out."""
    hips: np.ndarray
    """(N) [m] distance of the Hips' head; 0 where they are given."""

    def figures(self) -> dict[str, Any]:
        """The figures of the card: mm, mm and degrees."""
        return {
            "effector_mm": {
                "mean": float(self.effector.mean() * 1000),
                "p95": float(np.percentile(self.effector, 95) * 1000),
            },
            "mpjpe_mm": float(self.joints.mean() * 1000),
            "rotation_deg": float(self.rotation.mean()),
            **({"hips_mm": float(self.hips.mean() * 1000)} if np.any(self.hips) else {}),
        }


def join(parts: list[Errors]) -> Errors:
    """Errors of several sets of frames as one."""
    return Errors(
        np.concatenate([p.effector for p in parts], axis=1),
        np.concatenate([p.joints for p in parts]),
        np.concatenate([p.rotation for p in parts]),
        np.concatenate([p.hips for p in parts]),
    )


def errors_of(
    skeleton: Skeleton, rot: np.ndarray, targets: Targets, truth: Truth, shift: np.ndarray | None = None
) -> Errors:
    """Errors of core rotations ``rot`` (3, J, N), the root's head at ``shift`` (3, N), against the true poses and their targets."""
    turns = rotations.matrix_components(rot)
    _, heads = fk.forward_matrices(skeleton, turns, skeleton.offsets / skeleton.leg_length)
    if shift is not None:
        heads = heads + shift[:, None]
    bones = np.array(skeleton.effectors)
    effector = np.sqrt(np.sum((heads[:, bones] - targets.positions) ** 2, axis=0)) * skeleton.leg_length
    joints = np.sqrt(np.sum((heads - truth.heads) ** 2, axis=0)) * skeleton.leg_length
    apart = fk.compose_components(turns[:, :, 1:], truth.turns[:, :, 1:].swapaxes(0, 1))
    angle = np.sqrt(np.sum(rotations.axis_angle_components(apart) ** 2, axis=0))
    return Errors(effector, joints[1:].mean(axis=0), np.degrees(angle.mean(axis=0)), joints[0])


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


def suite(net: Network, samples: Samples, rows: np.ndarray, poses: PoseSet) -> list[Result]:
    """The five tests on the frames ``rows`` (the test part) of ``poses``, laid out as ``samples``."""
    rng = np.random.default_rng(SEED)
    rig = net.skeleton
    targets, truth = batches.asked(net.layout, rig, samples, rows)
    found = predicted(net, targets, truth)
    score = float(found.effector.mean())
    results = [
        Result(
            "Holdout (FK)",
            score < HOLDOUT_MOST,
            score,
            HOLDOUT_MOST,
            f"mean effector error {score * 1000:.1f} mm on the test part",
        )
    ]
    halfway = _halfway(net, samples, rows, poses)
    if halfway is None:
        results.append(
            Result(
                "Interpolation (FK)",
                False,
                float("nan"),
                INTERPOLATION_MOST,
                "no two test poses of one clip to go between",
            )
        )
    else:
        score = float(predicted(net, *halfway).effector.mean())
        results.append(
            Result(
                "Interpolation (FK)",
                score < INTERPOLATION_MOST,
                score,
                INTERPOLATION_MOST,
                f"mean effector error {score * 1000:.1f} mm halfway between test poses",
            )
        )
    inputs = features(net.layout, rig, targets)
    first, second = forward(net, inputs), forward(net, inputs.copy())
    score = float(np.abs(first - second).max())
    results.append(Result("Consistency", score == 0, score, 0.0, f"same input twice: outputs differ by {score:g}"))
    noise = rng.standard_normal(inputs.shape).astype(np.float32) * NOISE * net.deviation
    noise[:, net.deviation == 1] = 0  # flags, and inputs that never moved in training
    base = _heads(net, first, targets)
    moved = _heads(net, forward(net, inputs + noise), targets)
    score = float(np.sqrt(np.sum((moved - base) ** 2, axis=0)).mean()) * rig.leg_length / NOISE
    results.append(
        Result(
            "Noise robustness",
            score < NOISE_MOST,
            score,
            NOISE_MOST,
            f"joints move {score * 1000:.0f} mm for one standard deviation of input noise",
        )
    )
    results.append(_follow(net, samples, rows, rng))
    return results


def _follow(net: Network, samples: Samples, rows: np.ndarray, rng: np.random.Generator) -> Result:
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
    return Result(
        "Follow",
        gain >= FOLLOW_ALL and bool(gains[worst] >= FOLLOW_EACH),
        gain,
        FOLLOW_ALL,
        f"targets that move are followed by {gain * 100:.0f} %, least by {rig.names[rig.effectors[worst]]} ({gains[worst] * 100:.0f} %, "
        f"at least {FOLLOW_EACH * 100:.0f} %)",
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


def predicted(net: Network, targets: Targets, truth: Truth) -> Errors:
    """Errors of the network's own answer."""
    rot, shift = batches.predict(net, targets)
    return errors_of(net.skeleton, rot, targets, truth, shift)


def _heads(net: Network, outputs: np.ndarray, targets: Targets) -> np.ndarray:
    rot, shift = decode(net.layout, net.skeleton, outputs, targets.root)
    _, heads = fk.forward_components(net.skeleton, rot, net.skeleton.offsets / net.skeleton.leg_length)
    return heads if shift is None else heads + shift[:, None]


@dataclass(frozen=True)
class Measured:
    """Everything the card says of one network on one test part, frame by frame, so that folds can be pooled."""

    samples: dict[str, int]
    tests: list[Result]
    errors: dict[str, Errors | None]
    """holdout, refined, without_context and the baselines; None where this data has no training frames for one."""
    clip: np.ndarray
    """(N) clip of each test frame."""


def measure(net: Network, poses: PoseSet, parts: np.ndarray, samples: Samples | None = None) -> Measured:
    """Score a network on the frames that ``parts`` marks TEST; TRAIN and VALIDATION frames serve the baselines only."""
    rig = net.skeleton
    samples = prepare(poses) if samples is None else samples
    train, held, test = (np.flatnonzero(parts == part) for part in (TRAIN, VALIDATION, TEST))
    own, refined = [], []
    for rows in chunks(test):
        targets, truth = batches.asked(net.layout, rig, samples, rows)
        own.append(predicted(net, targets, truth))
        refined.append(refined_errors(net, targets, truth))
    errors: dict[str, Errors | None] = {"holdout": join(own), "refined": join(refined)}
    errors["without_context"] = without_context(net, samples, test)
    errors.update(baseline_errors(rig, samples, train, held, test))
    if net.layout.mask and not net.layout.free_root:
        errors.update(fewer_targets(net, samples, train, test))
    counts = {"train": len(train), "validation": len(held), "test": len(test)}
    return Measured(counts, suite(net, samples, test, poses), errors, poses.clip[test])


def refined_errors(net: Network, targets: Targets, truth: Truth) -> Errors:
    """Errors after exactly 3 refinement steps, with orientations where the network takes them, limits off."""
    rot, shift = batches.predict(net, targets)
    given = targets.given
    wish = refinement.Wish(
        targets.positions,
        targets.turned if net.layout.orientations else None,
        None if given is None else given[0],
        None if given is None else given[1],
    )
    done = refinement.refine(net.skeleton, rot, wish, REFINE_STEPS, shift=shift, free_root=shift is not None)
    return errors_of(net.skeleton, done.rot, targets, truth, done.shift)


def fewer_targets(net: Network, samples: Samples, train: np.ndarray, test: np.ndarray) -> dict[str, Errors | None]:
    """Errors where only 1 (a hand, a wing tip), 2, ... of the targets are given, for networks with a mask; beside them plain ones."""
    rig = net.skeleton
    rng = np.random.default_rng(SEED)
    effectors = len(rig.effectors)
    hands = _hands(rig)
    mean = batches.mean_pose(samples, train) if len(train) else None
    out: dict[str, list[Errors]] = {}
    for rows in chunks(test):
        targets, truth = batches.asked(net.layout, rig, samples, rows)
        _, heads, true_targets = batches.true_batch(rig, samples, rows)
        own_truth = replace(truth, turns=_own_turns(rig, samples, rows), heads=heads)
        order = rng.permuted(np.tile(np.arange(effectors)[:, None], len(rows)), axis=0)
        hand = hands[order[:1] % len(hands)]
        for count in range(1, effectors + 1):
            chosen = hand if count == 1 else order[:count]
            given = np.zeros((effectors, len(rows)), np.float32)
            np.put_along_axis(given, chosen, 1, axis=0)
            some = replace(targets, given=np.stack([given, given]))
            out.setdefault(f"given_{count}", []).append(refined_errors(net, some, truth))
            if mean is not None:
                plain = baselines.with_root(mean, true_targets)
                out.setdefault(f"given_{count}_mean_pose", []).append(errors_of(rig, plain, true_targets, own_truth))
                plain, _ = baselines.nearest(rig, samples, train, true_targets, given)
                out.setdefault(f"given_{count}_nearest", []).append(errors_of(rig, plain, true_targets, own_truth))
    return {name: join(parts) for name, parts in out.items()}


def _hands(rig: Skeleton) -> np.ndarray:
    """Which effectors reach out: the paired ones that do not stand; else all that do not stand, else all."""
    away = np.abs(rig.rest_core[list(rig.effectors), 0, 3] - rig.rest_core[0, 0, 3]) > 0.05 * rig.leg_length
    free = ~np.isin(rig.effectors, rig.feet)
    return np.flatnonzero(next(mask for mask in (free & away, free, np.ones(len(free), bool)) if mask.any()))


def _own_turns(rig: Skeleton, samples: Samples, rows: np.ndarray) -> np.ndarray:
    return rotations.matrix_components(batches.components(samples.rot[rows]))


def figures(measured: list[Measured], poses: PoseSet, split: str) -> dict[str, Any]:
    """The card as plain JSON values, pooled over all test frames of several folds (usually one).

    A pooled test shows the fold that did worst, and passes where every fold passes.
    """
    pooled: dict[str, Errors | None] = {}
    for name in measured[0].errors:
        found = [m.errors[name] for m in measured]
        pooled[name] = join([e for e in found if e is not None]) if all(e is not None for e in found) else None
    worst = []
    for results in zip(*(m.tests for m in measured), strict=True):
        low = results[0].name == "Follow"  # the one test where more is better
        worst.append((min if low else max)(results, key=lambda r: np.inf if np.isnan(r.score) else r.score))
        worst[-1] = replace(worst[-1], passed=all(r.passed for r in results))
    holdout, refined = pooled["holdout"], pooled["refined"]
    assert holdout is not None
    assert refined is not None
    clip = np.concatenate([m.clip for m in measured])
    samples: dict[str, Any] = {k: round(np.mean([m.samples[k] for m in measured])) for k in ("train", "validation")}
    samples.update(test=sum(m.samples["test"] for m in measured), split=split)
    if len(measured) > 1:
        samples["folds"] = len(measured)
    given = {name: _figures(e) for name, e in pooled.items() if name.startswith("given_")}
    return {
        **({"targets": given} if given else {}),
        "samples": samples,
        "body_length_mm": poses.skeleton.body_length * 1000,
        "holdout": holdout.figures(),
        "refined": {**refined.figures(), "share_below_1mm": float((refined.effector.max(axis=0) < 1e-3).mean())},
        "without_context": _figures(pooled["without_context"]),
        "baselines": {name: _figures(pooled[name]) for name, _ in ROWS},
        "clips": {
            name: float(holdout.effector[:, clip == c].mean() * 1000)
            for c, name in enumerate(poses.clip_names)
            if np.any(clip == c)
        },
        "groups": groups(poses, clip, pooled),
        "tests": [{**vars(r), "score": None if np.isnan(r.score) else r.score} for r in worst],
    }


def groups(poses: PoseSet, clip: np.ndarray, errors: dict[str, Errors | None]) -> dict[str, dict[str, dict[str, Any]]]:
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
        found = {}
        for label in sorted(set(of_frame.tolist()) - {""}):
            mine = of_frame == label
            row: dict[str, Any] = {"frames": int(mine.sum())}
            for name in ("holdout", "refined", "nearest", "mean_pose"):
                own = errors[name]
                row[name] = None if own is None else float(own.effector[:, mine].mean() * 1000)
            found[label] = row
        if len(found) > 1:
            out[kind] = found
    return out


def _figures(errors: Errors | None) -> dict[str, Any] | None:
    return None if errors is None else errors.figures()


def baseline_errors(
    rig: Skeleton, samples: Samples, train: np.ndarray, held: np.ndarray, test: np.ndarray
) -> dict[str, Errors | None]:
    """Errors of every plain answer on the frames ``test``, from the frames ``train`` (``held`` to choose by); Hips given."""
    found: dict[str, list[Errors]] = {name: [] for name, _ in ROWS}
    mean = batches.mean_pose(samples, train) if len(train) else None
    model = baselines.fit_ridge(rig, samples, train, held[:: max(1, len(held) // 500)]) if len(train) else None
    plain = LAYOUTS["reference"]
    for rows in chunks(test):
        targets, truth = batches.asked(plain, rig, samples, rows)
        answers = {"rest": baselines.rest(rig, targets)}
        if mean is not None and model is not None:
            answers["mean_pose"] = baselines.with_root(mean, targets)
            answers["nearest"] = baselines.nearest(rig, samples, train, targets)[0]
            answers["ridge"] = baselines.ridge(rig, model, targets)
        for name, rot in answers.items():
            found[name].append(errors_of(rig, rot, targets, truth))
    spaced = test[np.linspace(0, len(test) - 1, min(len(test), CLASSICAL_MOST)).round().astype(int)]
    for rows in chunks(spaced):
        targets, truth = batches.asked(plain, rig, samples, rows)
        starts = {"classical_rest": baselines.rest(rig, targets)}
        if mean is not None:
            starts["classical_mean"] = baselines.with_root(mean, targets)
        for name, start in starts.items():
            found[name].append(errors_of(rig, baselines.classical(rig, start, targets), targets, truth))
    return {name: join(parts) if parts else None for name, parts in found.items()}


def without_context(net: Network, samples: Samples, rows: np.ndarray) -> Errors:
    """Errors with the ground, phase and task inputs set to zero after standardisation: what knowing them is worth."""
    rig = net.skeleton
    columns = net.layout.columns(rig)
    blind = np.concatenate([columns["ground"], columns["phase"], columns["task"]])
    out = []
    for part in chunks(rows):
        targets, truth = batches.asked(net.layout, rig, samples, part)
        inputs = features(net.layout, rig, targets)
        inputs[:, blind] = net.mean[blind]
        rot, shift = decode(net.layout, rig, forward(net, inputs), targets.root)
        out.append(errors_of(rig, rot, targets, truth, shift))
    return join(out)


def chunks(rows: np.ndarray) -> Iterator[np.ndarray]:
    """``rows`` in pieces of the size NumPy likes."""
    for at in range(0, len(rows), batches.CHUNK):
        yield rows[at : at + batches.CHUNK]


ROWS = (
    ("rest", "rest pose"),
    ("mean_pose", "mean pose"),
    ("nearest", "nearest training frame"),
    ("ridge", "ridge regression"),
    ("classical_rest", "classical solver from rest pose"),
    ("classical_mean", "classical solver from mean pose"),
)


def text(card: dict[str, Any]) -> list[str]:
    """The suite and the card as lines for a terminal, a panel's text block or a log."""
    signs = {"Follow": ">=", "Consistency": "="}
    lines = []
    for test in card["tests"]:
        bound = f"({signs.get(test['name'], '<')} {test['threshold']:g})"
        verdict = "PASS" if test["passed"] else "FAIL"
        lines.append(f"{verdict}  {test['name']:<19}{score_text(test):>8}  {bound:<9} {test['sentence']}")
    passed = sum(test["passed"] for test in card["tests"])
    lines += [f"{passed} of {len(card['tests'])} tests passed", ""]
    return lines + table(card)


def score_text(test: dict[str, Any]) -> str:
    """The score of one of a card's tests in four decimals, a dash where there was nothing to measure."""
    return "-" if test["score"] is None else f"{test['score']:.4f}"


def table(card: dict[str, Any]) -> list[str]:
    """The card's figures as lines: the network before and after refinement, and every baseline."""
    samples = card["samples"]
    split = samples["split"] + (", LEAKY: neighbours of training frames" if samples["split"] == "frame" else "")
    folds = f", {samples['folds']} folds pooled" if "folds" in samples else ""
    lines = [f"On {samples['test']} frames never trained on (split {split}{folds}):"]
    lines.append(f"{'':34}{'effector error mm':>20}{'joints':>10}{'rotation':>10}{'effectors':>11}")
    lines.append(f"{'':34}{'mean':>10}{'p95':>10}{'MPJPE mm':>10}{'degrees':>10}{'% of body':>11}")
    body = card["body_length_mm"]
    lines.append(_row("network alone", card["holdout"], body))
    share = card["refined"]["share_below_1mm"] * 100
    lines.append(
        _row("network + 3 exact steps", card["refined"], body) + f"   {share:.1f} % with all targets within 1 mm"
    )
    lines.append(_row("network, ground/phase/task zeroed", card["without_context"], body))
    lines += [_row(label, card["baselines"][name], body) for name, label in ROWS]
    lines.append(
        "Exact steps reach the targets from any start; joints and rotation say whether the body then moves as it did."
    )
    lines.append(
        f"The body is {body / 1000:.2f} m long: as high as it stands at rest or, where that is more, from end to end."
    )
    if "targets" in card:
        lines += ["", "Fewer targets given, after 3 steps, beside the plain answers (Hips given to these):"]
        for name, figures in card["targets"].items():
            count, _, plain = name.removeprefix("given_").partition("_")
            lines.append(_row(f"{count} of the targets, {plain.replace('_', ' ') or 'network'}", figures, body))
    return lines


def _row(label: str, figures: dict[str, Any] | None, body: float) -> str:
    if figures is None:
        return f"{label:<34}  (needs training frames in this data)"
    effector = figures["effector_mm"]
    numbers = (effector["mean"], effector["p95"], figures["mpjpe_mm"], figures["rotation_deg"])
    hips = f"   hips {figures['hips_mm']:.1f} mm" if "hips_mm" in figures else ""
    return f"{label:<34}" + "".join(f"{n:10.2f}" for n in numbers) + f"{effector['mean'] / body * 100:11.2f}" + hips
