# SPDX-License-Identifier: GPL-3.0-or-later
"""How a body changes from one pose to another: the covariance of pose changes, which drags use as their metric.

A pose change is a vector of 3 J + 3 numbers: for each bone the rotation vector log(A^T B) of its core rotations A before and B
after [rad, core axes as the bone carries them], then the way of the Hips' head [leg lengths] along the heading before: left,
back, up. Statistics of many takes are kept, never a pose of one.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from ..core import rotations
from ..core.skeleton import Skeleton, mirrored_bones
from ..motion import pose_set
from ..motion.pose_set import PoseSet
from . import network
from .context import headings
from .pose_density import PoseDensity

SEED = 21  # of the pose changes drawn from a character's takes
SHIPPED = Path(__file__).resolve().parents[2] / "training_data" / "weights" / "human.npy"
"""The weights for people: a network for all proportions, statistics of poses, and the covariance of people's pose changes on the
reference rig; ``training_data/README.md`` says what they were made from."""
SHORTEST, LONGEST = 0.3, 2.0  # [s] between the two poses of a change
PER_FRAME, MOST_PER_CLIP = 6, 4000  # changes drawn
ROOT_SPREAD = 0.1  # [leg lengths] added to where the Hips move: data of walks alone would nail them
ANATOMY = 0.12  # share of a joint's range of motion that is added to its standard deviation
LEAST = np.radians(3.0)  # [rad] added to every axis, so that none is frozen by data that never moved it
HIPS_RANGE = np.radians(40.0)  # [rad] range of motion ascribed to the Hips, which have no joint limits
HALF_OWN = 20  # takes of a character that count as much as all other people
FREE_RANGE = np.radians(120.0)  # [rad] and to joints without limits


def pose_changes(poses: PoseSet, rng: np.random.Generator) -> np.ndarray:
    """(K, 3 J + 3) changes between random pairs of poses of one clip, 0.3 to 2 s apart in either direction."""
    rig = poses.skeleton
    turns = rotations.matrix_from_axis_angle(rig.to_core(poses.rot))
    places = np.asarray(poses.root_pos, np.float64) @ rig.axes.T / rig.leg_length
    found = [np.zeros((0, 3 * rig.count + 3))]
    for clip in np.unique(poses.clip):
        rows = np.flatnonzero(poses.clip == clip)
        count = min(PER_FRAME * len(rows), MOST_PER_CLIP)
        before = rng.integers(0, len(rows), count)
        apart = np.maximum(rng.uniform(SHORTEST, LONGEST, count) * poses.clip_fps[clip], 1).astype(int)
        after = before + apart * rng.choice([-1, 1], count)
        inside = (after >= 0) & (after < len(rows))
        a, b = rows[before[inside]], rows[after[inside]]
        if not len(a):  # the clip is too short
            continue
        found.append(_changes(turns[a], places[a], turns[b], places[b]))
    return np.concatenate(found)


def _changes(turns: np.ndarray, places: np.ndarray, later_turns: np.ndarray, later_places: np.ndarray) -> np.ndarray:
    change = rotations.axis_angle_from_matrix(turns.swapaxes(-1, -2) @ later_turns)
    heading = headings(turns[:, 0], np.arange(len(turns)))
    way = later_places - places
    cosine, sine = np.cos(heading), np.sin(heading)
    along = np.stack([cosine * way[:, 0] + sine * way[:, 1], cosine * way[:, 1] - sine * way[:, 0], way[:, 2]], axis=1)
    return np.concatenate([change.reshape(len(change), -1), along], axis=1)


def change_covariance(poses: PoseSet, rng: np.random.Generator) -> np.ndarray:
    """(3 J + 3, 3 J + 3) second moments of the pose changes of ``poses`` and of their mirror images, about zero.

    Raises ValueError where no clip is long enough for a change.
    """
    changes = pose_changes(poses, rng)
    if not len(changes):
        raise ValueError(f"poses: expected a clip longer than {SHORTEST:g} s, got none")
    moments = changes.T @ changes / len(changes)
    mirror = mirror_matrix(poses.skeleton)
    return np.asarray(0.5 * (moments + mirror @ moments @ mirror.T))


def changes_of(poses: PoseSet, rows: np.ndarray) -> np.ndarray | None:
    """:func:`change_covariance` of the frames ``rows``, float32 as files hold it; None where no clip among them is long enough."""
    clips, clip = np.unique(poses.clip[rows], return_inverse=True)
    names = tuple(poses.clip_names[c] for c in clips)
    part = pose_set.make(
        poses.skeleton, poses.rot[rows], poses.root_pos[rows], clip, names, clip_fps=poses.clip_fps[clips]
    )
    try:
        return change_covariance(part, np.random.default_rng(SEED)).astype(np.float32).astype(np.float64)
    except ValueError:
        return None


def mirror_matrix(skeleton: Skeleton) -> np.ndarray:
    """(3 J + 3, 3 J + 3) that takes a pose change to that of the mirrored body."""
    other = mirrored_bones(skeleton)
    out = np.zeros((3 * skeleton.count + 3,) * 2)
    for j in range(skeleton.count):
        out[3 * j : 3 * j + 3, 3 * other[j] : 3 * other[j] + 3] = np.diag([1.0, -1, -1])
    out[-3:, -3:] = np.diag([-1.0, 1, 1])
    return out


def with_anatomy(skeleton: Skeleton, covariance: np.ndarray | None) -> np.ndarray:
    """``covariance`` of pose changes, widened by what the joints' ranges of motion allow; zero where it is None.

    What the data never moved may still move a little, and a rig without data gets a metric from its joint limits alone.
    """
    size = 3 * skeleton.count + 3
    out = np.zeros((size, size)) if covariance is None else np.array(covariance, np.float64)
    out[:-3, :-3] += anatomy(skeleton, LEAST)
    out[-3:, -3:] += np.eye(3) * ROOT_SPREAD**2
    return out


def anatomy(skeleton: Skeleton, least: float = 0.0) -> np.ndarray:
    """(3 J, 3 J) [rad^2] what the joints' ranges of motion say of how far they turn: no joint's axes depend on another's.

    ``least`` [rad] is the standard deviation added to every axis.
    """
    limits = np.full((skeleton.count, 6), np.nan) if skeleton.limits is None else skeleton.limits
    spans = limits[:, 1::2] - limits[:, ::2]  # about bone X, Y, Z
    spans = np.where(np.isfinite(spans), spans, FREE_RANGE)
    spans[0] = HIPS_RANGE
    out = np.zeros((3 * skeleton.count,) * 2)
    for j, basis in enumerate(skeleton.limit_axes):
        at = slice(3 * j, 3 * j + 3)
        out[at, at] = basis @ np.diag((ANATOMY * spans[j]) ** 2 + least**2) @ basis.T
    return out


def of_character(skeleton: Skeleton, own: PoseDensity | None) -> np.ndarray | None:
    """The covariance of pose changes for one character: people's, and its own the more the more takes it has been learned from.

    None where neither is known.
    """
    people = shipped(skeleton)
    if own is None or own.changes is None:
        return people
    if people is None:
        return own.changes
    share = own.takes / (own.takes + HALF_OWN)
    return (1 - share) * people + share * own.changes


@lru_cache(maxsize=1)
def _shipped() -> tuple[str, np.ndarray] | None:
    if not SHIPPED.exists():
        return None
    net = network.load(SHIPPED)
    if net.density is None or net.density.changes is None:
        return None
    return net.skeleton.fingerprint, net.density.changes


def shipped(skeleton: Skeleton) -> np.ndarray | None:
    """The shipped covariance where ``skeleton`` has the bones of the reference rig, whatever its proportions; else None.

    Raises ValueError where the shipped file is damaged.
    """
    found = _shipped()
    return found[1] if found is not None and found[0] == skeleton.fingerprint else None
