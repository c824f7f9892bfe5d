# SPDX-License-Identifier: GPL-3.0-or-later
"""Augmentation: pose-mix, joint noise, missing targets, hints of the root, random proportions.

Every augmented pose gets its targets by forward kinematics, so that each training sample is true.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core import forward_kinematics as fk
from ..core import rotations
from ..core.skeleton import Skeleton, mirrored_bones
from ..core.tree import chain
from .batches import components, with_hint
from .context import Layout, Samples, Targets, body_inputs, guess_root, t_pose_heads, targets_of
from .losses import Truth
from .settings import Training

HINT_SHIFT = 0.25  # [leg lengths] spread of the Hips' hint in each axis
LOOSE_JOINTS = 0.06  # [leg lengths] spread of where a joint of the trunk, a collar bone or a thigh begins, in each axis
FIRM_JOINTS = 0.03  # the same for the other joints of limbs
MEETING = 0.25  # share of bodies in which a joint of the trunk is where its parent is
HINT_TURN = 0.3  # [rad] spread of its heading and of its tilt


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
    offsets = None
    if config.proportions:
        offsets = random_proportions(skeleton, config.proportions, count, rng)
        if layout.places:
            offsets = moved_joints(skeleton, offsets, groups, rng)
    turns = rotations.matrix_components(posed)
    own = skeleton.offsets / skeleton.leg_length if offsets is None else offsets
    turned, heads = fk.forward_matrices(skeleton, turns, own)
    targets = targets_of(skeleton, turned, heads, low, grounded, desired, phase, task)
    if layout.mask:
        targets = replace(targets, given=random_mask(len(skeleton.effectors), count, config.drop_effectors, rng))
    if offsets is not None:
        targets = replace(targets, body=body_inputs(layout, skeleton, offsets))
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
    return _by_leg_length(skeleton, base * scale)


def _by_leg_length(skeleton: Skeleton, offsets: np.ndarray) -> np.ndarray:
    """``offsets`` (3, J, N) of bodies, in any unit, divided by each body's own leg length."""
    lengths = np.sqrt(np.sum(offsets * offsets, axis=0))
    legs = [lengths[b] + lengths[c] for _, b, c in skeleton.legs]
    return offsets / (np.mean(legs, axis=0) if legs else 1)


def moved_joints(
    skeleton: Skeleton, offsets: np.ndarray, groups: list[np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """(3, J, N) the ``offsets`` (3, J, N) of bodies with joints moved, alike on both sides [leg lengths of the body at hand].

    Rigs of one person differ most in where the joints of the trunk, the neck and the collar bones are, and some have two of
    them in one place: each of these meets its parent's head in a quarter of the bodies.
    """
    heads, every = t_pose_heads(skeleton, offsets), np.arange(skeleton.count)
    limbs = np.concatenate(groups)
    first = [
        int(bone) for bone in limbs if skeleton.parents[bone] not in limbs
    ]  # collar bones, lowest of the neck, thighs
    loose = ~np.isin(every, limbs) | np.isin(every, first)
    mirrored = mirrored_bones(skeleton)
    left = np.minimum(mirrored, every)  # or the bone of the two that stands for both
    spread = np.where(loose, LOOSE_JOINTS, FIRM_JOINTS)[:, None].astype(np.float32)
    shift = rng.standard_normal(offsets.shape, dtype=np.float32) * spread
    shift[0, mirrored == every] = 0
    shift = shift[:, left]
    shift[0, left != every] *= -1
    heads[:, 1:] += shift[:, 1:]
    legs = [bone for group in groups if set(skeleton.feet) & set(group.tolist()) for bone in group.tolist()]
    meets = rng.random(offsets.shape[1:], dtype=np.float32)[left] < MEETING
    meets &= (loose & ~np.isin(every, legs))[:, None]
    for bone in range(1, skeleton.count):
        heads[:, bone] = np.where(meets[bone], heads[:, skeleton.parents[bone]], heads[:, bone])
    moved = heads.copy()
    moved[:, 1:] -= heads[:, np.array(skeleton.parents[1:])]
    return _by_leg_length(skeleton, moved)
