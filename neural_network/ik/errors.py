# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of poses against the truth, frame by frame: a network's own, refined, and those of the plain answers beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core import forward_kinematics as fk
from ..core import rotations
from ..core.skeleton import Skeleton
from . import baselines, batches, likely_steps, refinement
from .context import LAYOUTS, Layout, Samples, Targets, decode, features
from .losses import Truth
from .network import Network, forward

REFINE_STEPS = 3
COMPARED_MOST = 2000  # test frames that the slow rivals with steps are measured on, evenly spaced
RIDGE_HELD = 500  # validation frames that choose the strength of the ridge regression, about
PLAIN = ("rest", "mean_pose", "nearest", "ridge")
"""Answers without steps, on every test frame; the Hips are given, the nearest frame is chosen by positions."""
POSITIONS = "_positions"
"""Ends the names of errors where the targets' rotations are not told."""
STEPPED = ("classical_rest", "classical_mean", "nearest_steps")
"""Answers that take steps to the very targets that the network has, on the compared frames."""
SEED = 20  # of the suite's own noise: the same figures twice


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

    def take(self, index: np.ndarray) -> Errors:
        """The errors of some of the frames."""
        return Errors(self.effector[:, index], self.joints[index], self.rotation[index], self.hips[index])


def join(parts: list[Errors]) -> Errors:
    """Errors of several sets of frames as one."""
    return Errors(
        np.concatenate([p.effector for p in parts], axis=1),
        np.concatenate([p.joints for p in parts]),
        np.concatenate([p.rotation for p in parts]),
        np.concatenate([p.hips for p in parts]),
    )


def chunks(rows: np.ndarray) -> Iterator[np.ndarray]:
    """``rows`` in pieces of the size NumPy likes."""
    for at in range(0, len(rows), batches.CHUNK):
        yield rows[at : at + batches.CHUNK]


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


# ---------------------------------------------------------------- the network's


def predicted(net: Network, targets: Targets, truth: Truth) -> Errors:
    """Errors of the network's own answer."""
    rot, shift = batches.predict(net, targets)
    return errors_of(net.skeleton, rot, targets, truth, shift)


def refined_errors(
    net: Network, targets: Targets, truth: Truth, rotations_given: bool = True, hypotheses: int | None = None
) -> Errors:
    """Errors after 3 steps as the solver takes them, limits off; with the targets' rotations where the network takes them.

    Without ``rotations_given`` these are not told, neither to the network nor to the steps.
    """
    rot, shift = refined(net, targets, rotations_given, hypotheses)
    return errors_of(net.skeleton, rot, targets, truth, shift)


def refined(
    net: Network, targets: Targets, rotations_given: bool = True, hypotheses: int | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Core rotations (3, J, N) after the steps of :func:`refined_errors`, and where the root's head is (3, N), if it was found."""
    told = rotations_given and net.layout.orientations
    asked = targets if told else batches.without_rotations(net.skeleton, targets)
    rot, shift = batches.predict(net, asked, told)
    given = targets.given
    aims = refinement.EffectorTargets(
        targets.positions,
        targets.turned if told else None,
        None if given is None else given[0],
        None if given is None else given[1],
    )
    free = shift is not None
    likely = None if net.prior is None or free else likely_steps.proposal(net.prior, rot, aims, hypotheses)
    done = likely_steps.refine(net.skeleton, rot, aims, REFINE_STEPS, likely, shift=shift, free_root=free)
    return done.rot, done.shift


def without_context(net: Network, samples: Samples, rows: np.ndarray) -> Errors:
    """Errors with the ground, phase and task inputs set to zero after standardisation: how much these inputs help."""
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


# ---------------------------------------------------------------- the plain answers'


def plain_errors(
    rig: Skeleton, samples: Samples, train: np.ndarray, held: np.ndarray, test: np.ndarray
) -> dict[str, Errors | None]:
    """Errors of the answers without steps (PLAIN) on the frames ``test``; the Hips are given to all of them.

    They are made from the frames ``train``, and ``held`` chooses the strength of the ridge regression. Without training frames
    there is only the rest pose, and the others are None.
    """
    found: dict[str, list[Errors]] = {name: [] for name in PLAIN}
    reference = LAYOUTS["reference"]
    if len(train):
        mean = batches.mean_pose(samples, train)
        model = baselines.fit_ridge(rig, samples, train, held[:: max(1, len(held) // RIDGE_HELD)])
        frames = baselines.frames_of(LAYOUTS["positions"], rig, samples, train)
    for rows in chunks(test):
        targets, truth = batches.asked(reference, rig, samples, rows)
        answers = {"rest": baselines.rest(rig, targets)}
        if len(train):
            answers["mean_pose"] = baselines.with_root(mean, targets)
            answers["nearest"] = baselines.nearest(frames, targets)[0]
            answers["ridge"] = baselines.ridge(rig, model, targets)
        for name, rot in answers.items():
            found[name].append(errors_of(rig, rot, targets, truth))
    return {name: join(parts) if parts else None for name, parts in found.items()}


def stepped_errors(
    layout: Layout, rig: Skeleton, samples: Samples, train: np.ndarray, test: np.ndarray
) -> dict[str, Errors | None]:
    """Errors of the answers with exact steps (STEPPED) on the frames ``test``.

    They know what a network of this ``layout`` is asked, no more and no less: orientations where it takes them, and no Hips
    where it has to find them. Without training frames there is only the classical solver from the rest pose.
    """
    found: dict[str, list[Errors]] = {name: [] for name in STEPPED}
    if len(train):
        mean = batches.mean_pose(samples, train)
        frames = baselines.frames_of(layout, rig, samples, train)
    for rows in chunks(test):
        targets, truth = batches.asked(layout, rig, samples, rows)
        done = {"classical_rest": baselines.classical(layout, rig, baselines.rest(rig, targets), targets)}
        if len(train):
            start = baselines.with_root(mean, targets)
            done["classical_mean"] = baselines.classical(layout, rig, start, targets)
            start, shift, _ = baselines.nearest(frames, targets)
            done["nearest_steps"] = baselines.converged(layout, rig, start, targets, shift)
        for name, answer in done.items():
            found[name].append(errors_of(rig, answer.rot, targets, truth, answer.shift))
    return {name: join(parts) if parts else None for name, parts in found.items()}


def compared(test: np.ndarray) -> np.ndarray:
    """Which of the test frames (indices into ``test``) the answers with steps are measured on: at most 2,000, evenly spaced."""
    return np.linspace(0, len(test) - 1, min(len(test), COMPARED_MOST)).round().astype(int)


def fewer_targets(net: Network, samples: Samples, train: np.ndarray, test: np.ndarray) -> dict[str, Errors]:
    """Errors where only 1 (a hand, a wing tip), 2, ... targets are given, for networks with a mask, and those of plain answers."""
    rig = net.skeleton
    rng = np.random.default_rng(SEED)
    effectors = len(rig.effectors)
    hands = hands_of(rig)
    if len(train):
        mean = batches.mean_pose(samples, train)
        frames = baselines.frames_of(LAYOUTS["positions"], rig, samples, train)
    out: dict[str, list[Errors]] = {}
    for rows in chunks(test):
        targets, truth = batches.asked(net.layout, rig, samples, rows)
        _, heads, true_targets = batches.true_batch(rig, samples, rows)
        turns = rotations.matrix_components(batches.components(samples.rot[rows]))
        own_truth = replace(truth, turns=turns, heads=heads)
        order = rng.permuted(np.tile(np.arange(effectors)[:, None], len(rows)), axis=0)
        hand = hands[order[:1] % len(hands)]
        for count in range(1, effectors + 1):
            chosen = hand if count == 1 else order[:count]
            given = np.zeros((effectors, len(rows)), np.float32)
            np.put_along_axis(given, chosen, 1, axis=0)
            some = replace(targets, given=np.stack([given, given]))
            out.setdefault(f"given_{count}", []).append(refined_errors(net, some, truth))
            if len(train):
                plain = baselines.with_root(mean, true_targets)
                out.setdefault(f"given_{count}_mean_pose", []).append(errors_of(rig, plain, true_targets, own_truth))
                plain, _, _ = baselines.nearest(frames, true_targets, given)
                out.setdefault(f"given_{count}_nearest", []).append(errors_of(rig, plain, true_targets, own_truth))
    return {name: join(parts) for name, parts in out.items()}


def hands_of(rig: Skeleton) -> np.ndarray:
    """Which effectors reach out: the paired ones that do not stand; else all that do not stand, else all."""
    away = np.abs(rig.rest_core[list(rig.effectors), 0, 3] - rig.rest_core[0, 0, 3]) > 0.05 * rig.leg_length
    free = ~np.isin(rig.effectors, rig.feet)
    return np.flatnonzero(next(mask for mask in (free & away, free, np.ones(len(free), bool)) if mask.any()))
