# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of targets and of solved poses (npz), with which other programs use ``python -m neural_network solve``.

In: ``positions`` (N, E, 3) [m, armature], ``root_pos`` (N, 3) [m], ``root_rot`` (N, 3) [rad], and optionally ``rotations``
(N, E, 3) [rad], ``weights``, ``orientation_weights`` (N, E), ``normals`` (N, E, 3), ``phase``, ``task``, ``ground`` (N) or one
number, ``grounded``, ``desired`` (N, feet). Out: ``rot`` (N, J, 3) [rad], ``root_pos`` (N, 3) [m], ``effector_error`` (N, E) [m].
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np

from ..core import forward_kinematics as fk
from ..core import rotations
from ..core.files import open_archive, write_whole
from ..core.messages import short
from ..core.skeleton import FARTHEST, MOST_TURNED, Skeleton
from ..motion.pose_set import PoseSet
from ..motion.tasks import task_value
from .context import Samples
from .solver import Goals, Solution

MOST_NAMED = 20  # fields named in one message
REQUIRED = ("positions", "root_pos", "root_rot")
OPTIONAL = (
    "rotations",
    "weights",
    "orientation_weights",
    "normals",
    "phase",
    "task",
    "grounded",
    "desired",
    "ground",
)


def load(path: str | os.PathLike[str], skeleton: Skeleton) -> tuple[Goals, tuple[str, ...]]:
    """Read the targets of many poses for ``skeleton``: the Goals, and the names of fields that are not used.

    Nothing is ever unpickled. Raises FileNotFoundError, or ValueError that says which field is missing or does not fit.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no targets at {path}: expected an .npz file with {', '.join(REQUIRED)}")
    with open_archive(path, "targets") as archive:
        names = archive.names
        found = archive.read_all((*REQUIRED, *OPTIONAL))
    missing = [name for name in REQUIRED if name not in found]
    if missing:
        there = ", ".join(short(name) for name in sorted(names)[:MOST_NAMED]) or "nothing"
        raise ValueError(f"{path.name}: missing {', '.join(missing)}; the file has {there}")
    try:
        goals = goals_of_arrays(found, skeleton)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None
    return goals, tuple(short(name) for name in sorted(set(names) - {*REQUIRED, *OPTIONAL})[:MOST_NAMED])


def goals_of_arrays(found: dict[str, np.ndarray], skeleton: Skeleton) -> Goals:
    """Goals from the arrays of a file, with every dtype, shape and range checked; ValueError says what was expected."""
    effectors, feet = len(skeleton.effectors), len(skeleton.feet)
    positions = found["positions"]
    if positions.ndim != 3 or positions.shape[1:] != (effectors, 3):
        names = ", ".join(skeleton.names[e] for e in skeleton.effectors)
        raise ValueError(f"positions: expected (N, {effectors}, 3) for {names}, got {positions.shape}")
    count = len(positions)
    if count == 0:
        raise ValueError("positions: expected at least one pose, got none")
    shapes = {
        "positions": (count, effectors, 3),
        "root_pos": (count, 3),
        "root_rot": (count, 3),
        "rotations": (count, effectors, 3),
        "weights": (count, effectors),
        "orientation_weights": (count, effectors),
        "normals": (count, effectors, 3),
        "grounded": (count, feet),
        "desired": (count, feet),
    }
    made: dict[str, Any] = {}
    for name, array in found.items():
        if name == "task" and array.dtype.kind == "U":  # names of tasks
            array = np.array([task_value(str(word)) for word in array.ravel()]).reshape(array.shape)
        if array.dtype.kind not in "fiub":
            raise ValueError(f"{name}: expected numbers, got {array.dtype}")
        if name in shapes and array.shape != shapes[name]:
            raise ValueError(f"{name}: expected shape {shapes[name]}, got {array.shape}")
        if name not in shapes and array.shape not in ((), (count,)):
            raise ValueError(f"{name}: expected one number or ({count},), got {array.shape}")
        array = array.astype(np.float64)
        bad = np.flatnonzero(~np.isfinite(array.reshape(len(array) if array.ndim else 1, -1)).all(axis=1))
        if len(bad):
            raise ValueError(
                f"{name}: expected finite numbers, got NaN or infinity in {len(bad)} rows, the first is {bad[0]}"
            )
        if name in ("weights", "orientation_weights", "phase", "task", "grounded", "desired") and (
            array.min() < 0 or array.max() > 1
        ):
            raise ValueError(f"{name}: expected numbers from 0 to 1, got {array.min():g} to {array.max():g}")
        most, kind = (MOST_TURNED, "radians") if name in ("rotations", "root_rot") else (FARTHEST, "metres")
        if np.abs(array).max() > most:
            raise ValueError(f"{name}: expected {kind}, got {np.abs(array).max():.3g}")
        made[name] = array if array.ndim else float(array)
    return Goals(**made)


def save(path: str | os.PathLike[str], solution: Solution, skeleton: Skeleton) -> None:
    """Write the result of ``solve_batch``: completely or not at all, and the same bytes for the same poses."""
    buffer = io.BytesIO()
    names = np.array(skeleton.names)
    np.savez(
        buffer, bone_names=names, rot=solution.rotations, root_pos=solution.root_pos, effector_error=solution.error
    )
    write_whole(path, buffer.getvalue())


def of_poses(poses: PoseSet, samples: Samples, rows: np.ndarray, orientations: bool = True) -> Goals:
    """The Goals, in armature space, that the frames ``rows`` (N) of ``poses`` meet exactly; ``samples`` are of the same poses."""
    rig = poses.skeleton
    rot, root_pos = poses.rot[rows].astype(np.float64), poses.root_pos[rows].astype(np.float64)
    pose = fk.armature_matrices(rig, rot, root_pos)[:, list(rig.effectors)]
    turned = pose[..., :3, :3] @ rig.rest_arm[list(rig.effectors), :3, :3].transpose(0, 2, 1)
    return Goals(
        positions=np.ascontiguousarray(pose[..., :3, 3]),
        root_pos=root_pos,
        root_rot=rot[:, 0],
        rotations=rotations.axis_angle_from_matrix(turned) if orientations else None,
        phase=samples.phase[rows].astype(np.float64),
        task=samples.task[rows].astype(np.float64),
        grounded=samples.grounded[rows].astype(np.float64),
        desired=samples.desired[rows].astype(np.float64),
        ground=samples.ground[rows].astype(np.float64),
    )
