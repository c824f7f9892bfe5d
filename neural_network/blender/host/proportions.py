# SPDX-License-Identifier: GPL-3.0-or-later
"""The lengths between controlled bones as they are posed now.

The solver turns controlled bones about each other at fixed offsets, those of the rest pose. Bent bones between two controlled
ones, scaled bones and moved ones change these offsets, so a rig is given to the solver with the offsets it really has.
"""

from __future__ import annotations

from dataclasses import replace

import bpy
import numpy as np

from . import rig_checks, runtime
from .control_rigs import ControlRig
from .rig import Rig

SAME = 1e-6  # [leg lengths]: offsets that differ by less are equal
_TURNS = ("rotation_quaternion", "rotation_euler", "rotation_axis_angle")


def watched(rig: Rig, channels: dict[str, np.ndarray]) -> np.ndarray:
    """All values in the channels that the offsets depend on and that posing the rig does not write."""
    if isinstance(rig, ControlRig):  # its controls place every joint; whether they do is tested when Live IK starts
        return np.zeros(0, np.float32)
    controlled = rig.index.tolist()
    others = [b for b in rig.needed if b not in set(controlled)]
    moved = [b for b in [*others, *controlled[1:]] if b != rig.carrier]
    parts = [channels["scale"].reshape(-1, 3)[[*others, *controlled]], channels["location"].reshape(-1, 3)[moved]]
    parts += [channels[name].reshape(len(rig.bones), -1)[others] for name in _TURNS]
    return np.concatenate([part.ravel() for part in parts])


def take_watched(rig: Rig, into: dict[str, np.ndarray], now: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The channels ``into`` with those values that :func:`watched` lists taken from ``now``."""
    controlled = rig.index.tolist()
    others = [b for b in rig.needed if b not in set(controlled)]
    moved = [b for b in [*others, *controlled[1:]] if b != rig.carrier]
    out = {name: values.copy() for name, values in into.items()}
    for name, rows in (("scale", [*others, *controlled]), ("location", moved), *((turn, others) for turn in _TURNS)):
        size = runtime.CHANNELS[name]
        out[name].reshape(-1, size)[rows] = now[name].reshape(-1, size)[rows]
    return out


def fitted(ob: bpy.types.Object, rig: Rig, channels: dict[str, np.ndarray]) -> Rig:
    """``rig`` with the offsets that its bones have in the pose of transform channels; itself if they are those at rest."""
    if isinstance(rig, ControlRig):
        return rig
    scale = channels["scale"].reshape(-1, 3)[rig.needed]
    away = [b for b in rig.index[1:].tolist() if not rig.connected[b]]
    far = np.abs(channels["location"].reshape(-1, 3)[away]).max(initial=0) * rig.unit
    rig = replace(rig, scaled=bool(np.abs(scale - 1).max() > 1e-6 or far > SAME * rig.skeleton.leg_length))
    if rig.simple:
        return rig
    return with_offsets(rig, offsets_in(rig, rig_checks.posed_of(ob, rig, channels)))


def offsets_in(rig: Rig, posed: np.ndarray) -> np.ndarray:
    """(J - 1, 3) [m] heads of all bones but the root relative to their parents', in the parents' own axes.

    ``posed`` (J, 4, 4) are pose matrices [object space].
    """
    heads = posed[:, :3, 3] @ rig.turn.T * rig.unit
    turns = rig.turn @ runtime.orthonormal(posed[:, :3, :3])
    parents = rig.skeleton.parents[1:]
    return np.einsum("jba,jb->ja", turns[parents], heads[1:] - heads[parents])


def own_offsets(rig: Rig) -> np.ndarray:
    """(J - 1, 3) [m] the offsets that the solver uses, as :func:`offsets_in`."""
    rest, parents = rig.skeleton.rest_arm, rig.skeleton.parents[1:]
    return np.einsum("jba,jb->ja", rest[parents, :3, :3], rest[1:, :3, 3] - rest[parents, :3, 3])


def with_offsets(rig: Rig, offsets: np.ndarray) -> Rig:
    """``rig`` with other ``offsets`` (J - 1, 3) [m] between controlled bones; itself if it has them already.

    Orientations at rest, the T-pose and the axes stay; only the heads move. The root's height at rest grows with the legs.
    Raises ValueError for legs without length.
    """
    skeleton = rig.skeleton
    rest = skeleton.rest_arm
    parents = skeleton.parents[1:]
    if np.abs(offsets - own_offsets(rig)).max(initial=0) <= SAME * skeleton.leg_length:
        return rig
    moved = rest.copy()
    for j, (parent, offset) in enumerate(zip(parents.tolist(), offsets, strict=True), 1):
        moved[j, :3, 3] = moved[parent, :3, 3] + rest[parent, :3, :3] @ offset
    changed = replace(skeleton, rest_arm=moved)
    changed.__dict__["axes"] = skeleton.axes  # cached: which way the body faces does not depend on its lengths
    longer = changed.leg_length / skeleton.leg_length
    if not longer > 1e-3:
        raise ValueError("the legs are scaled to nothing in this pose: clear the scale of the bones (Alt S)")
    moved[:, :3, 3] += (longer - 1) * rest[0, :3, 3]
    changed = replace(skeleton, rest_arm=moved)
    changed.__dict__["axes"] = skeleton.axes
    return replace(rig, skeleton=changed)


def next_offsets(now: np.ndarray, found: np.ndarray, before: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
    """Offsets (J - 1, 3) to try next, where solving with ``now`` gave a pose with the offsets ``found``.

    ``before`` are (now, found) of the try before: with it, a secant step for each bone (Anderson's mixing of depth 1), so that a
    leg that is longer the straighter it is does not swing between bent and straight.
    """
    if before is None:
        return found
    miss, missed = found - now, before[1] - before[0]
    change = miss - missed
    share = (miss * change).sum(axis=1) / np.maximum((change * change).sum(axis=1), 1e-18)
    return found - np.clip(share, -1, 0.9)[:, None] * (found - before[1])


def uneven(rig: Rig, channels: dict[str, np.ndarray]) -> bool:
    """Whether the offsets change with the solved pose itself: with uneven scales and unusual inheritance they do."""
    if isinstance(rig, ControlRig):
        return False
    scale = channels["scale"].reshape(-1, 3)[rig.needed]
    return bool(np.ptp(scale, axis=1).max() > 1e-6) or not all(rig.plain[b] for b in rig.needed)
