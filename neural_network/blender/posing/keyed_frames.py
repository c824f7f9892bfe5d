# SPDX-License-Identifier: GPL-3.0-or-later
"""Frames that *Key* has keyed while Live IK stays on.

There the correction, what the targets change about the animation, is in the keys, so the targets are where the animation has
the body. On all other frames the correction goes on; it is kept in the file while a keyed frame is shown.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import rotations
from . import scene_targets
from .state import FRAME, LiveCharacter

KEYED = "neural_ik_keyed"  # frame -> transforms (E + 1, 7) of the base pose there, flat
CORRECTION = (
    "neural_ik_correction"  # transforms of a base pose (E + 1, 7) and of the targets (T, 7) that differ from it, flat
)
SAME = 1e-4  # [leg lengths, quaternions] a base pose that differs more was changed since its frame was keyed


def shown(live: LiveCharacter, collection: Any) -> bool:
    """Whether the frame of the base pose was keyed, and still shows these keys."""
    stored = _frames(collection).get(_name(collection))
    if stored is None or len(stored) != live.base_transforms.size:
        return False
    off = np.array(stored).reshape(live.base_transforms.shape) - live.base_transforms
    off[:, :3] /= live.rig.skeleton.leg_length
    return bool(np.abs(off).max() <= SAME)


def add(live: LiveCharacter, collection: Any) -> None:
    """Note that the base pose is that of new keys."""
    found = _frames(collection)
    found[_name(collection)] = live.base_transforms.ravel().tolist()
    collection[KEYED] = found


def keep(collection: Any, base: np.ndarray, targets: np.ndarray) -> None:
    """Keep the correction: ``targets`` (T, 7) where the base pose has its effectors and root at ``base`` (E + 1, 7)."""
    collection[CORRECTION] = np.concatenate([base.ravel(), targets.ravel()]).tolist()


def whole(
    live: LiveCharacter,
    collection: Any,
    base: np.ndarray,
    targets: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The whole correction on a keyed frame: the one kept, and by what ``targets`` (T, 7) have left ``base`` (E + 1, 7) since.

    Returns base and targets as for :func:`keep`.
    """
    kept = np.array(collection[CORRECTION]).reshape(-1, 7) if CORRECTION in collection else np.zeros((0, 7))
    if len(kept) != len(base) + len(targets):
        return base, targets
    out = scene_targets.moved_along(live, kept[: len(base)], kept[len(base) :])
    rows = slice(0, len(base))
    out[rows, :3] += targets[rows, :3] - base[:, :3]
    turned = rotations.quaternion_multiply(targets[rows, 3:], rotations.quaternion_conjugate(base[:, 3:]))
    out[rows, 3:] = rotations.quaternion_multiply(turned, out[rows, 3:])
    return base, out


def at_base(live: LiveCharacter, targets: np.ndarray) -> np.ndarray:
    """``targets`` (T, 7) with those that are on, and nothing else moves, where the base pose has them."""
    out = targets.copy()
    for row, target in enumerate(live.targets[: len(live.base_transforms)]):
        if target.use and target.name and not target.driven and target.pin == "NONE":
            out[row] = live.base_transforms[row]
    return out


def forget(collection: Any) -> None:
    """Forget all of it, because the keys hold the correction on every frame."""
    for name in (KEYED, CORRECTION):
        if name in collection:
            del collection[name]


def _frames(collection: Any) -> dict[str, list[float]]:
    return {name: list(values) for name, values in collection[KEYED].items()} if KEYED in collection else {}


def _name(collection: Any) -> str:
    return f"{collection[FRAME]:g}"
