# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of drags (npz), with which other programs use ``python -m neural_network solve --session``.

In: ``positions`` (N, E, 3) [m, armature], ``drag`` (N), ``start_rot`` (D, J, 3) [rad], ``start_root_pos`` (D, 3) [m], and
optionally ``weights`` (N, E), ``ground`` and the rig; see :func:`load`. Out: as :mod:`.targets_file` writes it.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..core.files import open_archive, write_whole
from ..core.messages import short
from ..core.reference_rig import EFFECTORS, FEET, reference
from ..core.skeleton import FARTHEST, MOST_TURNED, Skeleton, make
from .drag import Drag

MOST_NAMED = 20  # fields named in one message


@dataclass(frozen=True)
class DragTargets:
    """Targets of several drags, in the order of their frames; N rows, D drags."""

    skeleton: Skeleton
    positions: np.ndarray
    """(N, E, 3) [m, armature]."""
    weights: np.ndarray
    """(N, E) 0: free."""
    drag: np.ndarray
    """(N) int, which drag a row belongs to; rows of one drag stand together."""
    start_rot: np.ndarray
    """(D, J, 3) [rad] rot_local that each drag begins with."""
    start_root_pos: np.ndarray
    """(D, 3) [m, armature]."""
    ground: np.ndarray
    """(N) [m] height of the floor; that of a drag's first row counts."""


FIELDS = ("positions", "drag", "start_rot", "start_root_pos")
_RIG_FIELDS = ("bone_names", "parents", "rest_arm")


def load(path: str | os.PathLike[str]) -> tuple[DragTargets, tuple[str, ...]]:
    """Read the targets of drags, and the names of fields that are not used.

    The rig is that of ``bone_names`` (J), ``parents`` (J), ``rest_arm`` (J, 4, 4), whose effectors and feet are ``effectors`` and
    ``feet`` (names) or, without them, the bones named as the reference rig's; without a rig, the reference rig.
    Nothing is ever unpickled. Raises FileNotFoundError, or ValueError that says which field is missing or does not fit.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no targets at {path}: expected an .npz file with {', '.join(FIELDS)}")
    optional = ("weights", "ground", "effectors", "feet", *_RIG_FIELDS)
    with open_archive(path, "targets") as archive:
        names = archive.names
        found = archive.read_all((*FIELDS, *optional))
    try:
        missing = [name for name in FIELDS if name not in found]
        if missing:
            raise ValueError(f"missing {', '.join(missing)}: rows of drags need the pose that each begins with")
        targets = _drags_of_arrays(found, _rig_of_arrays(found))
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None
    return targets, tuple(short(name) for name in sorted(set(names) - {*FIELDS, *optional})[:MOST_NAMED])


def _rig_of_arrays(found: dict[str, np.ndarray]) -> Skeleton:
    """The rig described by a file, or the reference rig."""
    rig = reference()
    given = [name for name in _RIG_FIELDS if name in found]
    if not given:
        return rig
    if len(given) < len(_RIG_FIELDS):
        raise ValueError(f"a rig needs {', '.join(_RIG_FIELDS)}; the file has {', '.join(given)} only")
    words = {name: found.get(name) for name in ("bone_names", "effectors", "feet")}
    for name, array in words.items():
        if array is not None and (array.ndim != 1 or (array.size and array.dtype.kind != "U")):
            raise ValueError(f"{name}: expected a list of names, got {array.dtype} of shape {array.shape}")
    names = [str(name) for name in found["bone_names"]]
    effectors = EFFECTORS if words["effectors"] is None else [str(n) for n in found["effectors"]]
    feet = FEET if words["feet"] is None else [str(n) for n in found["feet"]]
    lacking = [name for name in (*effectors, *feet) if name not in names]
    if lacking:
        raise ValueError(
            f"no bone named {', '.join(map(short, lacking[:6]))}: say which bones are targets in `effectors` and `feet`"
        )
    parents, rest = found["parents"], found["rest_arm"]
    if parents.dtype.kind not in "iu" or rest.dtype.kind != "f":
        raise ValueError("expected parents of integers and rest_arm of floating-point numbers")
    made = make(names, parents, rest, effectors, feet)
    if made.fingerprint == rig.fingerprint:  # its limits hold whatever the proportions
        made = replace(made, limits=rig.limits)
    return made


def _drags_of_arrays(found: dict[str, np.ndarray], skeleton: Skeleton) -> DragTargets:
    """Drags from the arrays of a file, with every dtype, shape and range checked."""
    drag, positions, start = found["drag"], found["positions"], found["start_rot"]
    if drag.dtype.kind not in "iu" or drag.ndim != 1 or not len(drag):
        raise ValueError(f"drag: expected integers (N), got {drag.dtype} of shape {drag.shape}")
    if start.ndim != 3 or not len(start):
        raise ValueError(f"start_rot: expected (drags, {skeleton.count}, 3), got {start.shape}")
    count, drags = len(drag), len(start)
    shapes = {
        "positions": (count, len(skeleton.effectors), 3),
        "weights": (count, len(skeleton.effectors)),
        "start_rot": (drags, skeleton.count, 3),
        "start_root_pos": (drags, 3),
    }
    farthest = FARTHEST * max(1.0, skeleton.leg_length)
    bounds = {"start_rot": MOST_TURNED, "weights": 1.0}
    made: dict[str, np.ndarray] = {}
    for name, shape in shapes.items():
        array = found.get(name, np.ones(shape) if name == "weights" else None)
        if array is None or array.dtype.kind not in "fiub" or array.shape != shape:
            raise ValueError(f"{name}: expected numbers of shape {shape}, got {None if array is None else array.shape}")
        made[name] = array.astype(np.float64)
        if name == "weights" and (made[name] < 0).any():
            raise ValueError(f"weights: expected numbers from 0 to 1, got {made[name].min():g}")
        if not (np.abs(made[name]) <= bounds.get(name, farthest)).all():
            raise ValueError(f"{name}: expected finite numbers up to {bounds.get(name, farthest):g}")
    if positions.shape[0] and (drag.min() < 0 or drag.max() >= drags):
        raise ValueError(f"drag: expected numbers from 0 to {drags - 1}, got {drag.min()} to {drag.max()}")
    if np.count_nonzero(np.diff(drag)) + 1 != len(np.unique(drag)):
        raise ValueError("drag: expected the rows of a drag to stand together")
    ground = np.asarray(found.get("ground", 0.0))
    if ground.dtype.kind not in "fiu" or ground.shape not in ((), (count,)) or not (np.abs(ground) <= farthest).all():
        raise ValueError(f"ground: expected one finite height or ({count},), got {ground.shape}")
    return DragTargets(skeleton, drag=drag.astype(int), ground=np.broadcast_to(ground.astype(float), (count,)), **made)


def solve(
    targets: DragTargets, covariance: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Answer the rows one after the other: rot_local (J, 3) [rad], the Hips' head (3) [m] and errors (E) [m] of each.

    Each drag begins with its pose and goes on from row to row, as a drag in Blender does. ``covariance`` as for :class:`.Drag`.
    """
    drag, number = None, -1
    for row, positions in enumerate(targets.positions):
        if drag is None or targets.drag[row] != number:
            number = int(targets.drag[row])
            start = targets.start_rot[number], targets.start_root_pos[number]
            drag = Drag(targets.skeleton, *start, covariance, float(targets.ground[row]))
        yield drag.solve(positions, targets.weights[row])


def save(
    path: str | os.PathLike[str], skeleton: Skeleton, rot: np.ndarray, root_pos: np.ndarray, error: np.ndarray
) -> None:
    """Write the answers: rot (N, J, 3) [rad], root_pos (N, 3) [m], errors (N, E) [m]; whole or not at all."""
    buffer = io.BytesIO()
    np.savez(buffer, bone_names=np.array(skeleton.names), rot=rot, root_pos=root_pos, effector_error=error)
    write_whole(path, buffer.getvalue())
