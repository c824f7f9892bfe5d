# SPDX-License-Identifier: GPL-3.0-or-later
"""Training: a generator that yields one :class:`Epoch` after the other, and ends with the best network.

Nothing here prints or writes. The terminal loops over the generator, an operator may pump it; whoever stops early keeps
``epoch.state`` and hands it in again to go on to the very result of an uninterrupted run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core import forward_kinematics as fk
from ..core import rotations
from ..core.skeleton import Skeleton, chain, mirrored_bones
from ..motion.splits import TRAIN, VALIDATION
from . import losses, network
from .context import LAYOUTS, Layout, Samples, Targets, decode, features, guess_root, limb_lengths, targets_of
from .losses import Truth
from .network import Network
from .settings import Losses, Training

CHUNK = 256  # poses at once in evaluation: NumPy's fast range
STATISTICS = 32  # batches drawn for the input statistics
VALIDATION_MOST = 2000  # frames looked at in an epoch: enough for a figure, and long data stays quick
SETTLE = 0.75  # share of the schedule to which it jumps when patience runs out: stopping at a large step size wastes what was learned
AVERAGE = 0.995  # decay of the running average of the weights; it is what is validated and kept


@dataclass(frozen=True)
class State:
    """All that a training needs to go on: written by :func:`pack`, read by :func:`unpack`."""

    parameters: np.ndarray
    average: np.ndarray
    first: np.ndarray
    second: np.ndarray
    best: np.ndarray
    step: int
    epoch: int
    best_epoch: int
    best_value: float
    spent: float
    rng: dict[str, Any]
    history: tuple[tuple[float, float], ...]
    ahead: float = 0.0
    """How much of the schedule was skipped when patience ran out."""
    since: int = 0
    """The epoch from which patience counts."""


@dataclass(frozen=True)
class Epoch:
    """What one epoch came to."""

    number: int
    """From 1."""
    of: int
    """Upper bound of epochs."""
    share: float
    """0 to 1, how much of the training is done: by epochs, or by time where a time limit is set."""
    fk: float
    """[m] mean effector distance over the training batches, augmentation included."""
    validation: float
    """[m] mean effector distance on the validation part, without refinement."""
    best: bool
    """A new best on the validation part."""
    best_value: float
    """[m]"""
    best_epoch: int
    samples: int
    """Poses presented so far."""
    ended: bool
    """Patience ran out for good."""
    state: State


def train(
    skeleton: Skeleton,
    samples: Samples,
    parts: np.ndarray,
    config: Training,
    start: Network | None = None,
    state: State | None = None,
    own: int | None = None,
) -> Iterator[Epoch]:
    """Train on the frames that ``parts`` (F) marks TRAIN, choosing the best on those marked VALIDATION.

    Where only the first ``own`` frames are the character's own, and others' follow, half of what is presented is its own
    and an epoch is as long as for these alone; pose-mix mixes all of them. ``start`` gives the weights to begin with
    (fine-tuning), ``state`` an interrupted training to continue. Use :func:`finish` to turn the last epoch's state into a
    network. Stops at ``config.epochs`` or when ``config.time_limit`` CPU seconds are spent. After ``config.patience`` epochs
    without a better validation figure the schedule jumps to its last quarter, where the step size falls and the average
    settles; the second time training ends.
    """
    layout = LAYOUTS[config.layout]
    rows, held = np.flatnonzero(parts == TRAIN), np.flatnonzero(parts == VALIDATION)
    if len(rows) < 2 or len(held) < 1:
        raise ValueError(f"expected frames to train and to validate on, got {len(rows)} and {len(held)}")
    epoch_most = None
    if own is not None:
        epoch_most = max(2 * int(np.sum(rows < own)), config.epoch_least)
        rows = balanced(rows, own)
    net = begin(skeleton, samples, rows, config) if start is None else start
    widths = network.sizes(skeleton, layout, config.hidden)
    if net.layout != layout or network.sizes(net.skeleton, net.layout, net.hidden) != widths:
        raise ValueError(
            f"weights to start from: expected layout {layout.name} with layers {widths}, got {net.layout.name} with "
            f"{network.sizes(net.skeleton, net.layout, net.hidden)}; train with the same --layout and --hidden"
        )
    if state is None:
        zeros = np.zeros_like(net.parameters)
        rng = np.random.default_rng([config.seed, 1])
        kept = (net.parameters.copy(), net.parameters.copy(), zeros, zeros.copy(), net.parameters.copy())
        state = State(*kept, 0, 0, 0, float("inf"), 0.0, dict(rng.bit_generator.state), ())
    parameters, average, first, second, best = (
        a.copy() for a in (state.parameters, state.average, state.first, state.second, state.best)
    )
    rng = np.random.default_rng()
    rng.bit_generator.state = state.rng
    stack = network.layers(parameters, widths)
    gradient = np.zeros_like(parameters)
    into = network.layers(gradient, widths)
    step, epoch, best_epoch, best_value = state.step, state.epoch, state.best_epoch, state.best_value
    history, ahead, since = state.history, state.ahead, state.since
    groups = limb_groups(skeleton)
    held = held[np.linspace(0, len(held) - 1, min(len(held), VALIDATION_MOST)).round().astype(int)]
    measured = [value for value, _ in history if value > 0]  # epochs without the FK term read 0
    fk_off = bool(measured) and measured[-1] ** 2 < config.fk_off_below
    scratch, scratch2 = np.empty_like(parameters), np.empty_like(parameters)
    began = time.process_time() - state.spent

    while epoch < config.epochs:
        order = np.concatenate([rng.permutation(rows) for _ in range(presentations(config, len(rows)))])
        order = order[:epoch_most]
        total_fk = 0.0
        counted = 0
        share = min(1.0, _share(config, epoch, time.process_time() - began) + ahead)
        for at in range(0, len(order), config.batch_size):
            picked = order[at : at + config.batch_size]
            if len(picked) < 2:
                continue
            within = (at / len(order)) / config.epochs if not config.time_limit else 0.0
            lr = config.lr * (
                config.lr_end + (1 - config.lr_end) * 0.5 * (1 + np.cos(np.pi * min(1.0, share + within)))
            )
            targets, truth = draw(skeleton, layout, samples, rows, picked, config, groups, rng)
            x = (features(layout, skeleton, targets) - net.mean) / net.deviation
            activations = network.forward_layers(stack, x)
            weights = _scheduled(config, step, fk_off)
            values, out = losses.total(layout, skeleton, activations[-1], targets, truth, weights)
            network.backward_layers(stack, activations, np.ascontiguousarray(out), into)
            step += 1
            _adam(parameters, gradient, first, second, step, lr, config, scratch, scratch2)
            decay = min(AVERAGE, step / (step + 10))
            average *= decay
            np.multiply(parameters, 1 - decay, out=scratch)
            average += scratch
            if "fk" in values:
                total_fk += values["fk"] * len(picked)
                counted += len(picked)
            if config.time_limit and time.process_time() - began > config.time_limit:
                break
        mean_fk = total_fk / max(1, counted) * skeleton.leg_length
        if config.fk_off_below and counted:
            fk_off = mean_fk**2 < config.fk_off_below
        validation = error_of(replace(net, parameters=average), samples, held)
        epoch += 1
        better = validation < best_value
        if better:
            best_value, best_epoch = validation, epoch
            best[...] = average
        spent = time.process_time() - began
        history = (*history, (mean_fk, validation))
        share = min(1.0, _share(config, epoch, spent) + ahead)
        over = epoch - max(best_epoch, since) >= config.patience
        if over and share < SETTLE:
            ahead, since, share, over = ahead + SETTLE - share, epoch, SETTLE, False
        state = State(
            parameters.copy(),
            average.copy(),
            first.copy(),
            second.copy(),
            best.copy(),
            step,
            epoch,
            best_epoch,
            best_value,
            spent,
            dict(rng.bit_generator.state),
            history,
            ahead,
            since,
        )
        yield Epoch(
            epoch,
            config.epochs,
            1.0 if over else share,
            mean_fk,
            validation,
            better,
            best_value,
            best_epoch,
            step * config.batch_size,
            over,
            state,
        )
        if over or share >= 1:
            return


def presentations(config: Training, frames: int) -> int:
    """How often each of ``frames`` training poses is presented in an epoch."""
    return config.augment or max(2, -(-config.epoch_least // frames))


def balanced(rows: np.ndarray, own: int) -> np.ndarray:
    """``rows`` with those below ``own`` repeated until they are about half of all, so that a few own frames are not drowned."""
    mine = rows < own
    times = max(1, round(int(np.sum(~mine)) / max(1, int(np.sum(mine)))))
    return np.repeat(rows, np.where(mine, times, 1))


def adapted(start: Network, skeleton: Skeleton, samples: Samples, rows: np.ndarray, config: Training) -> Network:
    """``start`` on another body of its tree: the same weights, inputs standardised as this body's frames ``rows`` have them.

    A longer arm then reads as a usual one, which is what a network of rotations can go on with.
    """
    fresh = begin(skeleton, samples, rows, replace(config, layout=start.layout.name, hidden=start.hidden))
    return replace(start, skeleton=skeleton, mean=fresh.mean, deviation=fresh.deviation)


def begin(skeleton: Skeleton, samples: Samples, rows: np.ndarray, config: Training) -> Network:
    """An untrained network with the input statistics of the (augmented) training frames ``rows``."""
    layout = LAYOUTS[config.layout]
    rng = np.random.default_rng([config.seed, 0])
    groups = limb_groups(skeleton)
    inputs = []
    for _ in range(STATISTICS):
        picked = rows[rng.integers(0, len(rows), config.batch_size)]
        targets, _ = draw(skeleton, layout, samples, rows, picked, config, groups, rng)
        inputs.append(features(layout, skeleton, targets))
    mean_output = np.zeros(layout.output_count(skeleton))
    mean_output[: 3 * skeleton.count] = mean_pose(samples, rows).ravel()
    mean_output[:3] = 0
    return network.init(skeleton, layout, config.hidden, np.concatenate(inputs), mean_output, rng)


def finish(
    skeleton: Skeleton,
    samples: Samples,
    parts: np.ndarray,
    config: Training,
    state: State,
    start: Network | None = None,
) -> Network:
    """The best network of a training whose last state is ``state``; the rest as it was given to :func:`train`."""
    net = begin(skeleton, samples, np.flatnonzero(parts == TRAIN), config) if start is None else start
    return replace(net, skeleton=skeleton, parameters=state.best.copy(), meta={})


def mean_pose(samples: Samples, rows: np.ndarray) -> np.ndarray:
    """(J, 3) the chordal mean of the core rotations of the frames ``rows``: mean matrix, projected on the rotations by SVD."""
    mean = rotations.matrix_from_axis_angle(samples.rot[rows].astype(np.float64)).mean(axis=0)
    u, _, v = np.linalg.svd(mean)
    u[..., -1] *= np.sign(np.linalg.det(u @ v))[..., None]
    return rotations.axis_angle_from_matrix(u @ v)


def limb_groups(skeleton: Skeleton) -> list[np.ndarray]:
    """Bones that move as one limb in pose-mix: for each effector the bones below the last fork, all feet's together.

    A fork is a bone that another effector's chain passes through too; bones below the effector (toes, fingers) belong to it.
    """
    chains = {e: chain(skeleton.parents, e) for e in skeleton.effectors}
    legs: set[int] = set()
    out = []
    for effector, own in chains.items():
        others = {b for e, c in chains.items() if e != effector for b in c} | {0}
        limb = [b for b in own if b not in others]
        if not limb:
            continue
        bones = set(np.flatnonzero(skeleton.subtree[limb[-1]]).tolist())
        if effector in skeleton.feet:
            legs |= bones
        else:
            out.append(np.array(sorted(bones)))
    return ([np.array(sorted(legs))] if legs else []) + out


def components(rot: np.ndarray) -> np.ndarray:
    """(N, J, 3) to (3, J, N), contiguous."""
    return np.ascontiguousarray(rot.transpose(2, 1, 0))


def draw(
    skeleton: Skeleton,
    layout: Layout,
    samples: Samples,
    rows: np.ndarray,
    picked: np.ndarray,
    config: Training,
    groups: list[np.ndarray],
    rng: np.random.Generator,
) -> tuple[Targets, Truth]:
    """The frames ``picked``, augmented, with the targets they then meet.

    Pose-mix: with probability ``config.mix`` each limb comes from another training pose (one of ``rows``), likewise the Hips'
    rotation, and phase and task; every joint but the Hips gets noise of a strength drawn up to ``config.joint_noise``. Targets
    are recomputed by forward kinematics, so that every sample stays true.
    """
    count = len(picked)
    rot = samples.rot[picked]
    low, grounded, desired = samples.low[picked], samples.grounded[picked], samples.desired[picked]
    if config.mix:
        for group in groups:
            swap = np.flatnonzero(rng.random(count) < config.mix)
            donors = rows[rng.integers(0, len(rows), len(swap))]
            rot[swap[:, None], group] = samples.rot[donors[:, None], group]
            if skeleton.feet and skeleton.feet[0] in group:
                low[swap], grounded[swap], desired[swap] = (
                    samples.low[donors],
                    samples.grounded[donors],
                    samples.desired[donors],
                )
    phase, task = samples.phase[picked], samples.task[picked]
    if config.mix:  # what the clip says of a pose is a hint, never the reason for it
        swap = np.flatnonzero(rng.random(count) < config.mix)
        donors = rows[rng.integers(0, len(rows), len(swap))]
        phase[swap], task[swap] = samples.phase[donors], samples.task[donors]
        swap = np.flatnonzero(rng.random(count) < config.mix)
        donors = rows[rng.integers(0, len(rows), len(swap))]
        rot[swap, 0] = samples.rot[donors, 0]
    posed = components(rot)
    if config.joint_noise and config.mix:
        strength = rng.random(count, dtype=np.float32) * np.float32(config.joint_noise / np.sqrt(3))
        posed[:, 1:] += rng.standard_normal((3, skeleton.count - 1, count), dtype=np.float32) * strength
    offsets = random_proportions(skeleton, config.proportions, count, rng) if config.proportions else None
    turns = rotations.matrix_components(posed)
    own = skeleton.offsets / skeleton.leg_length if offsets is None else offsets
    turned, heads = fk.forward_matrices(skeleton, turns, own)
    targets = targets_of(skeleton, turned, heads, low, grounded, desired, phase, task)
    if layout.mask:
        targets = replace(targets, given=random_mask(len(skeleton.effectors), count, config.drop_effectors, rng))
    if layout.lengths and offsets is not None:
        targets = replace(targets, lengths=limb_lengths(skeleton, offsets))
    truth = Truth(turns, heads, None, offsets)
    if layout.free_root:
        return with_hint(targets, truth, *random_hint(skeleton, targets, rng))
    return targets, truth


def random_mask(effectors: int, count: int, drop: float, rng: np.random.Generator) -> np.ndarray:
    """(2, E, N) float32 0/1: which targets are given. With probability ``drop`` a pose loses each of them at its own random rate.

    An orientation without its position is never given; at least one position always is.
    """
    given = np.ones((2, effectors, count), np.float32)
    losing = rng.random(count) < drop
    keep = rng.random(count)
    given[0] = np.where(losing, rng.random((effectors, count)) < keep, 1)
    given[0, rng.integers(0, effectors, count), np.arange(count)] = 1
    given[1] = given[0] * np.where(rng.random(count) < drop, rng.random((effectors, count)) < rng.random(count), 1)
    return given


HINT_SHIFT = 0.25  # [leg lengths] spread of the Hips' hint in each axis
HINT_TURN = 0.3  # [rad] spread of its heading and of its tilt


def random_hint(
    skeleton: Skeleton, targets: Targets, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hints of the Hips: head (3, N) [leg lengths], heading (N) [rad] and rotation (3, 3, N), seen in the true root frame.

    Half of them are the truth, shaken; the other half are guessed from the targets, where all are given.
    """
    count = targets.positions.shape[-1]
    strength = rng.random(count, dtype=np.float32)
    head = rng.standard_normal((3, count), dtype=np.float32) * HINT_SHIFT * strength
    heading = rng.standard_normal(count, dtype=np.float32) * HINT_TURN * strength
    tilt = rng.standard_normal((3, count), dtype=np.float32) * HINT_TURN * strength
    root = fk.compose_components(rotations.matrix_components(tilt), targets.root)
    guess = rng.random(count) < 0.5
    if targets.given is not None:
        guess &= np.all(targets.given, axis=(0, 1))
    guessed, turned = guess_root(skeleton, targets.positions, targets.turned)
    upright = np.eye(3, dtype=np.float32)[:, :, None]
    return np.where(guess, guessed, head), np.where(guess, turned, heading), np.where(guess, upright, root)


def with_hint(
    targets: Targets, truth: Truth, head: np.ndarray, heading: np.ndarray, root: np.ndarray
) -> tuple[Targets, Truth]:
    """Targets and truth seen from a hint of the Hips: its head (3, N), heading (N) and rotation without heading (3, 3, N)."""
    zero = np.zeros_like(heading)
    back = rotations.matrix_components(np.stack([zero, zero, -heading]))
    positions = np.einsum("abn,ben->aen", back, targets.positions - head[:, None])
    heads = np.einsum("abn,bjn->ajn", back, truth.heads - head[:, None])
    turned = np.einsum("abn,bcen->acen", back, targets.turned)
    turns = truth.turns.copy()
    turns[:, :, 0] = fk.compose_components(back, truth.turns[:, :, 0])
    return (
        replace(targets, positions=positions, turned=turned, root=root),
        replace(truth, turns=turns, heads=heads, shift=heads[:, 0]),
    )


def asked(layout: Layout, skeleton: Skeleton, samples: Samples, rows: np.ndarray) -> tuple[Targets, Truth]:
    """What a network of this layout is asked on the frames ``rows``, and the truth: with a free root, Hips guessed from the targets."""
    posed, heads, targets = true_batch(skeleton, samples, rows)
    truth = Truth(rotations.matrix_components(posed), heads)
    if not layout.free_root:
        return targets, truth
    head, heading = guess_root(skeleton, targets.positions, targets.turned)
    upright = np.repeat(np.eye(3, dtype=np.float32)[:, :, None], len(rows), axis=2)
    return with_hint(targets, truth, head, heading, upright)


def random_proportions(skeleton: Skeleton, spread: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """(3, J, N) float32 offsets [leg lengths of the body at hand] of bodies whose limbs and trunk are longer or shorter.

    Each limb is scaled by up to +-``spread`` / 2 as a whole and its bones by up to a quarter of ``spread`` more, alike on
    both sides; the trunk likewise. Offsets are divided by the new body's own leg length.
    """
    base = np.ascontiguousarray(skeleton.offsets.T)[:, :, None].astype(np.float32)
    scale = np.ones((skeleton.count, count), np.float32)
    scale *= 1 + spread / 2 * rng.uniform(-1, 1, count).astype(np.float32)
    partner = mirrored_bones(skeleton)
    arms = 1 + spread / 2 * rng.uniform(-1, 1, (2, count)).astype(np.float32)  # legs and the rest each in their own way
    for group in limb_groups(skeleton):
        scale[group] *= arms[0 if skeleton.feet and skeleton.feet[0] in group else 1]
    bone = 1 + spread / 4 * rng.uniform(-1, 1, (skeleton.count, count)).astype(np.float32)
    scale *= bone[np.minimum(partner, np.arange(skeleton.count))]
    offsets = base * scale
    lengths = np.sqrt(np.sum(offsets * offsets, axis=0))
    legs = [lengths[b] + lengths[c] for _, b, c in skeleton.legs]
    return offsets / (np.mean(legs, axis=0) if legs else 1)


def predict(net: Network, targets: Targets) -> tuple[np.ndarray, np.ndarray | None]:
    """The network's pose for ``targets``: core rotations (3, J, N), and the root's shift (3, N) [leg lengths] if it is free."""
    return decode(
        net.layout, net.skeleton, network.forward(net, features(net.layout, net.skeleton, targets)), targets.root
    )


def true_batch(skeleton: Skeleton, samples: Samples, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, Targets]:
    """The frames ``rows`` as they are: core rotations (3, J, N), heads (3, J, N) [leg lengths] and their targets."""
    truth = components(samples.rot[rows])
    turned, heads = fk.forward_components(skeleton, truth, skeleton.offsets / skeleton.leg_length)
    return (
        truth,
        heads,
        targets_of(
            skeleton,
            turned,
            heads,
            samples.low[rows],
            samples.grounded[rows],
            samples.desired[rows],
            samples.phase[rows],
            samples.task[rows],
        ),
    )


def effector_distances(
    skeleton: Skeleton, rot: np.ndarray, targets: Targets, shift: np.ndarray | None = None
) -> np.ndarray:
    """(E, N) [m] how far the effectors of core rotations ``rot`` (3, J, N) are from their targets."""
    _, heads = fk.forward_components(skeleton, rot, skeleton.offsets / skeleton.leg_length)
    reached = heads[:, np.array(skeleton.effectors)]
    if shift is not None:
        reached = reached + shift[:, None]
    return np.sqrt(np.sum((reached - targets.positions) ** 2, axis=0)) * skeleton.leg_length


def error_of(net: Network, samples: Samples, rows: np.ndarray) -> float:
    """[m] mean effector distance of the network's poses on the frames ``rows``, without refinement."""
    total = 0.0
    for at in range(0, len(rows), CHUNK):
        targets, _ = asked(net.layout, net.skeleton, samples, rows[at : at + CHUNK])
        rot, shift = predict(net, targets)
        total += float(effector_distances(net.skeleton, rot, targets, shift).mean(axis=0).sum())
    return total / len(rows)


def state_path(weights: Path) -> Path:
    """Where a stopped training of ``weights`` waits to be resumed."""
    return weights.with_name(weights.stem + ".resume.npz")


def pack(state: State) -> dict[str, np.ndarray]:
    """A State as plain arrays, for an npz without pickle."""
    names = ("step", "epoch", "best_epoch", "best_value", "spent", "rng", "history", "ahead", "since")
    about = {name: getattr(state, name) for name in names}
    text = np.frombuffer(json.dumps(about).encode(), np.uint8)
    arrays = {name: getattr(state, name) for name in ("parameters", "average", "first", "second", "best")}
    return {**arrays, "about": text}


def unpack(arrays: dict[str, np.ndarray]) -> State:
    """The State that :func:`pack` laid out."""
    about: dict[str, Any] = json.loads(bytes(arrays["about"]))
    about["history"] = tuple((float(a), float(b)) for a, b in about["history"])
    for name in ("parameters", "average", "first", "second", "best"):
        about[name] = np.array(arrays[name], np.float32)
    return State(**about)


def _share(config: Training, epoch: int, spent: float) -> float:
    by_epoch = epoch / config.epochs
    return min(1.0, max(by_epoch, spent / config.time_limit) if config.time_limit else by_epoch)


def _scheduled(config: Training, step: int, fk_off: bool) -> Losses:
    weights = config.losses
    if fk_off or step % config.fk_every:
        weights = replace(weights, fk=0.0)
    if step % config.contact_every:
        weights = replace(weights, contact=0.0)
    return weights


def _adam(
    parameters: np.ndarray,
    gradient: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    step: int,
    lr: float,
    config: Training,
    scratch: np.ndarray,
    scratch2: np.ndarray,
) -> None:
    """One step of Adam (Kingma & Ba 2015, arXiv 1412.6980) in place, with its bias correction folded into the step size."""
    first *= config.beta1
    np.multiply(gradient, 1 - config.beta1, out=scratch)
    first += scratch
    second *= config.beta2
    np.multiply(gradient, gradient, out=scratch)
    scratch *= 1 - config.beta2
    second += scratch
    np.sqrt(second, out=scratch)
    correction = np.sqrt(1 - config.beta2**step)
    scratch += config.epsilon * correction
    np.divide(first, scratch, out=scratch2)
    scratch2 *= lr * correction / (1 - config.beta1**step)
    parameters -= scratch2
