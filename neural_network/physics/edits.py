# SPDX-License-Identifier: GPL-3.0-or-later
"""Motion that is impossible on purpose, to measure Make Physical and the balance score: what an animator does to a captured action."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..core import rotations
from ..core.skeleton import Skeleton
from ..ik.foot_pins import forward
from ..motion import features

FLOAT = 0.05  # [m]
PATH = 1.2
BENT = (("LeftThigh", -0.25), ("Spine", 0.3), ("RightShin", 0.25))
"""[rad] about the left axis."""
BEND = 8.0  # [frames] standard deviation of the Gaussian in the middle of the action
SHAKE = (0.04, 0.01)  # [rad] and [m] standard deviations
SHAKEN = 2.0  # [frames] of the Gaussian that smooths them
LEGS = (0.8, 1.2)
LEAN = np.radians(10.0)

Edited = tuple[Skeleton, np.ndarray, np.ndarray]
"""A body, local core rotations (F, J, 3, 3) and the Hips' heads (F, 3) [m]."""


def floating(body: Skeleton, turns: np.ndarray, root: np.ndarray, rng: np.random.Generator) -> Edited:
    """Five centimetres too high."""
    return body, turns, root + [0, 0, FLOAT]


def stretched(body: Skeleton, turns: np.ndarray, root: np.ndarray, rng: np.random.Generator) -> Edited:
    """The same steps on a way that is a fifth longer."""
    out = root.copy()
    out[:, :2] = root[0, :2] + PATH * (root[:, :2] - root[0, :2])
    return body, turns, out


def bent(body: Skeleton, turns: np.ndarray, root: np.ndarray, rng: np.random.Generator) -> Edited:
    """A thigh, the spine and the other shin keyed otherwise in the middle."""
    share = np.exp(-0.5 * ((np.arange(len(root)) - (len(root) - 1) / 2) / BEND) ** 2)
    out = turns.copy()
    for name, angle in BENT:
        bone = body.names.index(name)
        by = np.zeros((len(root), 3))
        by[:, 0] = angle * share
        out[:, bone] = turns[:, bone] @ rotations.matrix_from_axis_angle(by)
    return body, out, root


def shaken(body: Skeleton, turns: np.ndarray, root: np.ndarray, rng: np.random.Generator) -> Edited:
    """All joints and the root tremble."""
    reach = int(4 * SHAKEN)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / SHAKEN) ** 2)
    kernel /= np.sqrt(np.sum(kernel**2))  # what it smooths keeps its standard deviation
    white = rng.normal(size=(len(root) + 2 * reach, body.count + 1, 3))
    slow = np.lib.stride_tricks.sliding_window_view(white, len(kernel), axis=0) @ kernel
    return body, turns @ rotations.matrix_from_axis_angle(SHAKE[0] * slow[:, 1:]), root + SHAKE[1] * slow[:, 0]


def with_legs(factor: float) -> Callable[..., Edited]:
    """The same turns and way with thighs and shins longer or shorter by ``factor``."""

    def edit(body: Skeleton, turns: np.ndarray, root: np.ndarray, rng: np.random.Generator) -> Edited:
        return legs_scaled(body, factor), turns, root

    return edit


def legs_scaled(body: Skeleton, factor: float) -> Skeleton:
    """A body with thighs and shins longer or shorter by ``factor``, its soles on the floor of its T-pose."""
    rest = body.rest_arm.copy()
    old = body.rest_arm[:, :3, 3]
    for (thigh, shin, foot), toe in zip(body.legs, body.toes, strict=True):
        rest[shin, :3, 3] = old[thigh] + factor * (old[shin] - old[thigh])
        rest[foot, :3, 3] = rest[shin, :3, 3] + factor * (old[foot] - old[shin])
        rest[toe, :3, 3] = rest[foot, :3, 3] + old[toe] - old[foot]
    foot = body.feet[0]
    rest[:, :3, 3] += old[foot] * [0, 0, 1] - rest[foot, :3, 3] * [0, 0, 1]
    return replace(body, rest_arm=rest)


def leaning(body: Skeleton, turns: np.ndarray, root: np.ndarray, rng: np.random.Generator) -> Edited:
    """Ten degrees forward as a whole, about where it stands."""
    feet = forward(body, turns, root)[1][:, list(body.feet)].mean(axis=1) * [1, 1, 0]
    left = features.yaw(features.headings(turns[:, 0]))[:, :, 0]
    by = rotations.matrix_from_axis_angle(LEAN * left)
    out = turns.copy()
    out[:, 0] = by @ turns[:, 0]
    return body, out, feet + np.einsum("fab,fb->fa", by, root - feet)


EDITS: dict[str, Callable[..., Edited]] = {
    "float": floating,
    "path": stretched,
    "bent": bent,
    "shake": shaken,
    **{f"legs x {factor}": with_legs(factor) for factor in LEGS},
}
"""What Make Physical is measured on, by name; each takes a body, its turns and root, and a random generator."""
