# SPDX-License-Identifier: GPL-3.0-or-later
"""Corruptions: what goes wrong with motion, made on purpose, so that repairs can be learned and measured.

Motion is ``turns`` (F, J, 3, 3), local core rotations, and ``root`` (F, 3) [m], the root's head, in core axes. Frames are counted as
at 30 a second, whatever the rate.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from ..core import rotations
from ..motion import features

KINDS = ("drift", "speed", "floor", "noise", "smooth", "drop")
SHARES = (0.7, 0.5, 0.7, 0.6, 0.4, 0.4)
"""How probable each of the kinds is in a mix."""
MIX = "mix"
POSE = ("noise", "smooth", "drop")
"""Those that change poses; the others move the root alone."""
DRIFT = 0.15  # [m/s] at most, along each level axis
WANDER = 0.02  # [m] standard deviation of the slow part of a drift
SLOW = 12.0  # [frames] standard deviation of the Gaussian that makes chance slow
SPEED = (0.75, 1.3)
FLOOR = 0.05  # [m] at most, up or down
WHITE, TREND = 3.0, 4.0  # [deg] at most, of noise from frame to frame and of slow noise
WIDTH = (1.0, 4.0)  # [frames] of the Gaussian that smooths
KEPT = (2, 5)  # every so many frames one is kept
DENSE = 512  # frames up to which one product with a matrix smooths


def drawn(kind: str, rng: np.random.Generator) -> tuple[str, ...]:
    """The kinds that ``kind`` stands for: itself, or those that chance puts into a mix, in the order of :data:`KINDS`."""
    if kind in KINDS:
        return (kind,)
    if kind != MIX:
        raise ValueError(f"corruption: expected one of {', '.join((*KINDS, MIX))}, got {kind}")
    return tuple(name for name, share in zip(KINDS, SHARES, strict=True) if rng.random() < share)


def corrupt(
    turns: np.ndarray, root: np.ndarray, kinds: Sequence[str], rng: np.random.Generator, still: Sequence[int] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """The motion with the corruptions ``kinds``, one after the other; ``still`` are bones (collars) that get no noise."""
    for kind in kinds:
        turns, root = _MADE[kind](turns, root, rng, still)
    return turns, root


def gaussian(values: np.ndarray, width: float) -> np.ndarray:
    """Values (F, ...) smoothed along time by a Gaussian of ``width`` [frames]; the ends are held."""
    reach, frames = int(np.ceil(4 * width)), len(values)
    if reach < 1 or frames < 2:
        return values
    flat = values.reshape(frames, -1)
    if frames <= DENSE:
        return np.asarray((_matrix(frames, float(width)) @ flat).reshape(values.shape))
    padded = np.concatenate([np.repeat(flat[:1], reach, 0), flat, np.repeat(flat[-1:], reach, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1, axis=0)
    return np.asarray((windows @ _kernel(reach, width)).reshape(values.shape))


def _kernel(reach: int, width: float) -> np.ndarray:
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    return np.asarray(kernel / kernel.sum())


@functools.lru_cache(maxsize=64)
def _matrix(frames: int, width: float) -> np.ndarray:
    """(F, F) what :func:`gaussian` multiplies with."""
    reach = int(np.ceil(4 * width))
    out = np.zeros((frames, frames))
    at = np.clip(np.arange(frames)[:, None] + np.arange(-reach, reach + 1), 0, frames - 1)
    np.add.at(out, (np.arange(frames)[:, None], at), _kernel(reach, width))
    out.setflags(write=False)
    return out


def smoothed(turns: np.ndarray, root: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray]:
    """The motion smoothed by a Gaussian of ``width`` [frames], rotations as quaternions."""
    quaternions = rotations.continuous_quaternions(rotations.quaternion_from_matrix(turns))
    mean = gaussian(quaternions, width)
    mean /= np.maximum(np.linalg.norm(mean, axis=-1, keepdims=True), 1e-12)
    return rotations.matrix_from_quaternion(mean), gaussian(root, width)


Bones = Sequence[int]


def _slow(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Chance (F, ...) that changes slowly, of deviation 1."""
    margin = int(4 * SLOW)
    values = gaussian(rng.normal(size=(shape[0] + 2 * margin, *shape[1:])), SLOW)[margin:-margin]
    return np.asarray(values * np.sqrt(2 * np.sqrt(np.pi) * SLOW))


def _drift(
    turns: np.ndarray, root: np.ndarray, rng: np.random.Generator, still: Bones
) -> tuple[np.ndarray, np.ndarray]:
    out = root.copy()
    out[:, :2] += np.arange(len(root))[:, None] / 30 * rng.uniform(-DRIFT, DRIFT, 2)
    out[:, :2] += WANDER * _slow((len(root), 2), rng)
    return turns, out


def _speed(
    turns: np.ndarray, root: np.ndarray, rng: np.random.Generator, still: Bones
) -> tuple[np.ndarray, np.ndarray]:
    out = root.copy()
    out[:, :2] = root[0, :2] + rng.uniform(*SPEED) * (root[:, :2] - root[0, :2])
    return turns, out


def _floor(
    turns: np.ndarray, root: np.ndarray, rng: np.random.Generator, still: Bones
) -> tuple[np.ndarray, np.ndarray]:
    return turns, root + np.array([0, 0, rng.uniform(-FLOOR, FLOOR)])


def _noise(
    turns: np.ndarray, root: np.ndarray, rng: np.random.Generator, still: Bones
) -> tuple[np.ndarray, np.ndarray]:
    shape = (*turns.shape[:2], 3)
    by = rng.uniform(0, WHITE) * rng.normal(size=shape) + rng.uniform(0, TREND) * _slow(shape, rng)
    by[:, list(still)] = 0
    return turns @ rotations.matrix_from_axis_angle(np.radians(by)), root


def _smooth(
    turns: np.ndarray, root: np.ndarray, rng: np.random.Generator, still: Bones
) -> tuple[np.ndarray, np.ndarray]:
    return smoothed(turns, root, rng.uniform(*WIDTH))


def _drop(turns: np.ndarray, root: np.ndarray, rng: np.random.Generator, still: Bones) -> tuple[np.ndarray, np.ndarray]:
    step = int(rng.integers(KEPT[0], KEPT[1] + 1))
    times = np.arange(len(root), dtype=float)
    if rng.random() < 0.5:
        kept = (times // step * step).astype(int)
        return turns[kept], root[kept]
    rows = np.arange(0, len(root), step)
    return features.resampled(turns[rows], root[rows], times / step)


_MADE = {"drift": _drift, "speed": _speed, "floor": _floor, "noise": _noise, "smooth": _smooth, "drop": _drop}
