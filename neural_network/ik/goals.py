# SPDX-License-Identifier: GPL-3.0-or-later
"""Goals: the targets that a solver is given, in armature space, and their validation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..core.skeleton import Skeleton
from ..motion.tasks import task_value

FARTHEST = 1e6  # [leg lengths] targets farther away are a mistake, and float32 would lose their digits


@dataclass(frozen=True)
class Goals:
    """Where the effectors should be, in armature space; for many poses every array has a leading axis (N).

    >>> import numpy as np
    >>> from neural_network import Goals
    >>> hands_feet_head = np.array([[0.3, -0.4, 1.2], [-0.3, 0, 1.0], [0.1, 0, 0.08], [-0.1, 0, 0.08], [0, 0, 1.6]])
    >>> goals = Goals(hands_feet_head, root_pos=np.array([0, 0, 0.95]), root_rot=np.zeros(3))
    """

    positions: np.ndarray
    """(E, 3) [m] head of each effector, in the order of ``solver.effectors``."""
    root_pos: np.ndarray
    """(3) [m] head of the Hips; with a free root, a starting point."""
    root_rot: np.ndarray
    """(3) [rad] rot_local of the Hips; likewise."""
    rotations: np.ndarray | None = None
    """(E, 3) [rad] each effector's armature orientation relative to its rest, log(R R_rest^T); None leaves them free."""
    weights: np.ndarray | None = None
    """(E) 0 free, 1 exact, between: that far from the network's pose to the target. None: all 1."""
    orientation_weights: np.ndarray | None = None
    """(E) the same for orientations. None: as ``weights``."""
    normals: np.ndarray | None = None
    """(E, 3) unit vectors; where not zero, the effector may slide on the plane through its target with this normal."""
    phase: float | np.ndarray = 0.0
    """0 to 1 through the motion."""
    task: float | np.ndarray | str = 1.0
    """Name of the task (see :data:`..motion.tasks.TASKS`), or its input value from 0 to 1."""
    grounded: np.ndarray | None = None
    """(feet) 0/1 the foot is on the ground. None: judged by its height."""
    desired: np.ndarray | None = None
    """(feet) 0/1 the same, 0.1 s later. None: as ``grounded``."""
    ground: float | np.ndarray = 0.0
    """[m] height of the floor."""


def stack(goals: Goals | Sequence[Goals]) -> Goals:
    """A sequence of single Goals as one with a leading axis (N); Goals that have it already are returned as they are.

    Raises ValueError for none, and where an array is given in some of them only.
    """
    if isinstance(goals, Goals):
        return goals
    if not goals:
        raise ValueError("expected at least one set of goals, got none")
    found: dict[str, Any] = {}
    for item in fields(Goals):
        values = [getattr(g, item.name) for g in goals]
        if item.name == "task":
            values = [task_value(v) if isinstance(v, str) else v for v in values]
        if any(v is None for v in values):
            if not all(v is None for v in values):
                raise ValueError(f"{item.name}: expected it in all goals of a batch or in none; solve them one by one")
            found[item.name] = None
        else:
            found[item.name] = np.stack([np.asarray(v) for v in values])
    return Goals(**found)


def rows(goals: Goals, which: slice | np.ndarray) -> Goals:
    """Some poses of Goals for many; numbers without a leading axis hold for all of them."""
    count = len(goals.positions)
    cut: dict[str, Any] = {}
    for item in fields(Goals):
        value = getattr(goals, item.name)
        has_rows = isinstance(value, np.ndarray) and value.ndim > 0 and len(value) == count
        cut[item.name] = value[which] if has_rows else value
    return Goals(**cut)


def alone(goals: Goals, index: int) -> Goals:
    """One pose of Goals for many, as single Goals."""
    count = len(goals.positions)
    cut: dict[str, Any] = {}
    for item in fields(Goals):
        value = getattr(goals, item.name)
        cut[item.name] = value[index] if isinstance(value, np.ndarray) and value.shape[:1] == (count,) else value
    return Goals(**cut)


def checked(goals: Goals, rig: Skeleton, many: bool) -> Goals:
    """The goals as float64 arrays of the right shapes for ``rig``, with a leading axis if ``many``, every number finite.

    A task name becomes its value. Raises ValueError that says what was expected otherwise.
    """
    effectors, feet = len(rig.effectors), len(rig.feet)
    lead: tuple[int, ...] = (len(goals.positions),) if many else ()
    if lead == (0,):
        raise ValueError("expected at least one set of goals, got none")
    found: dict[str, Any] = {}
    largest = (FARTHEST * max(1.0, rig.leg_length)) ** 2
    for name, shape in _shapes(lead, effectors, feet):
        given = getattr(goals, name)
        if given is None:
            continue
        value = np.asarray(given, np.float64)
        if value is not given:
            found[name] = value
        if value.shape != shape:
            raise ValueError(f"{name}: expected shape {shape}, got {value.shape}")
        # one test for all numbers: their sum of squares is small only if each is finite and of a plausible size
        if not np.vdot(value, value) < largest * (value.size or 1):
            _raise_for(name, value)
        if name in _WEIGHTS and not _within_0_and_1(value):
            raise ValueError(f"{name}: expected numbers from 0 to 1, got {value.min():g} to {value.max():g}")
    for name in ("phase", "task", "ground"):
        number = getattr(goals, name)
        if name == "task" and isinstance(number, str):
            number = found[name] = task_value(number)
        if isinstance(number, float) and math.isfinite(number) and not many:
            continue
        if np.shape(number) not in ((), lead):
            raise ValueError(
                f"{name}: expected one number{f' or shape {lead}' if many else ''}, got {np.shape(number)}"
            )
        if not np.all(np.isfinite(number)):
            raise ValueError(f"{name}: expected finite numbers, got NaN or infinity")
    return replace(goals, **found) if found else goals


_WEIGHTS = ("weights", "orientation_weights")


@lru_cache(maxsize=64)
def _shapes(lead: tuple[int, ...], effectors: int, feet: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Name and shape of each array that Goals may have, with the leading axes ``lead``."""
    vectors, numbers, contacts = (*lead, effectors, 3), (*lead, effectors), (*lead, feet)
    return (
        ("positions", vectors),
        ("root_pos", (*lead, 3)),
        ("root_rot", (*lead, 3)),
        ("rotations", vectors),
        ("weights", numbers),
        ("orientation_weights", numbers),
        ("normals", vectors),
        ("grounded", contacts),
        ("desired", contacts),
    )


def _within_0_and_1(weights: np.ndarray) -> bool:
    """Whether all weights are from 0 to 1; a few are checked faster in plain Python."""
    if weights.ndim == 1:
        return all(0 <= weight <= 1 for weight in weights.tolist())
    return bool(not weights.size or (weights.min() >= 0 and weights.max() <= 1))


def _raise_for(name: str, value: np.ndarray) -> None:
    """ValueError that says what is wrong with the numbers of an array."""
    if not np.isfinite(value).all():
        raise ValueError(f"{name}: expected finite numbers, got NaN or infinity")
    raise ValueError(f"{name}: expected metres within {FARTHEST:g} leg lengths, got {np.abs(value).max():g}")
