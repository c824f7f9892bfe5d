# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of drags (npz), with which other programs use ``python -m neural_network solve --session``.

In: ``positions`` (N, E, 3) [m, armature], ``drag`` (N), ``start_rot`` (D, J, 3) [rad], ``start_root_pos`` (D, 3) [m], and
optionally ``weights`` (N, E), ``ground``, targets of other bones and the rig; see :func:`load`. Out: as :mod:`.targets_file` writes it.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ..core.files import open_archive, write_whole
from ..core.messages import counted, short
from ..core.reference_rig import EFFECTORS, FEET, reference
from ..core.skeleton import FARTHEST, MOST_TURNED, Skeleton, make
from .drag import Drag
from .extra_targets import ExtraTarget, prepare

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
    extra_kinds: tuple[tuple[str, int], ...] = ()
    """(K) kind and bone of targets beside the effectors; see :class:`.ExtraTarget`."""
    extra_points: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 3)))
    """(N, K, 3) [m, armature]."""
    extra_weights: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    """(N, K) 0: off."""

    def extras(self, row: int) -> list[ExtraTarget]:
        """The targets beside the effectors in a row."""
        return [
            ExtraTarget(kind, bone, self.extra_points[row, k], float(self.extra_weights[row, k]))
            for k, (kind, bone) in enumerate(self.extra_kinds)
        ]


FIELDS = ("positions", "drag", "start_rot", "start_root_pos")
_EXTRA_FIELDS = ("extra_kinds", "extra_bones", "extra_points")
_RIG_FIELDS = ("bone_names", "parents", "rest_arm")


def load(path: str | os.PathLike[str]) -> tuple[DragTargets, tuple[str, ...]]:
    """Read the targets of drags, and the names of fields that are not used.

    The rig is that of ``bone_names`` (J), ``parents`` (J), ``rest_arm`` (J, 4, 4), whose effectors and feet are ``effectors`` and
    ``feet`` (names) or, without them, the bones named as the reference rig's; without a rig, the reference rig.
    ``extra_kinds`` (K: place, aim or pole), ``extra_bones`` (K, names) and ``extra_points`` (N, K, 3) [m, armature] are targets of
    other bones, with ``extra_weights`` (N, K) or 1.
    Nothing is ever unpickled. Raises FileNotFoundError, or ValueError that says which field is missing or does not fit.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no targets at {path}: expected an .npz file with {', '.join(FIELDS)}")
    optional = ("weights", "ground", "effectors", "feet", *_RIG_FIELDS, *_EXTRA_FIELDS, "extra_weights")
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
    drag, start = found["drag"], found["start_rot"]
    if drag.dtype.kind not in "iu" or drag.ndim != 1 or not len(drag):
        raise ValueError(
            f"drag: expected integers (N), one for each row of positions, got {drag.dtype} of shape {drag.shape}; "
            "number the drags from 0"
        )
    bones, effectors = counted(skeleton.count, "bone"), counted(len(skeleton.effectors), "effector")
    if start.ndim != 3 or not len(start):
        raise ValueError(
            f"start_rot: expected shape (drags, {bones}, 3), got {start.shape}; give one pose for each drag"
        )
    count, drags = len(drag), len(start)
    farthest = FARTHEST * max(1.0, skeleton.leg_length)
    one, every = "one for each entry of drag", "one for each drag"
    positions = _numbers(found, "positions", (count, len(skeleton.effectors), 3), f"{one}, {effectors}, xyz")
    weights = np.ones((count, len(skeleton.effectors)))
    if "weights" in found:
        weights = _numbers(found, "weights", weights.shape, f"{one}, {effectors}")
    start_rot = _numbers(found, "start_rot", (drags, skeleton.count, 3), f"{every}, {bones}, rotation vector")
    start_root_pos = _numbers(found, "start_root_pos", (drags, 3), f"{every}, xyz")
    ground = np.zeros(count)
    if "ground" in found:
        shape = () if found["ground"].shape == () else (count,)
        ground = np.broadcast_to(_numbers(found, "ground", shape, f"one for all, or {one}"), (count,))
    _require_range("positions", positions, -farthest, farthest, "are they metres?")
    _require_range("weights", weights, 0, 1, "0 frees an effector, 1 holds it")
    _require_range("start_rot", start_rot, -MOST_TURNED, MOST_TURNED, "are they radians?")
    _require_range("start_root_pos", start_root_pos, -farthest, farthest, "are they metres?")
    _require_range("ground", ground, -farthest, farthest, "are they metres?")
    if drag.min() < 0 or drag.max() >= drags:
        raise ValueError(
            f"drag: expected numbers from 0 to {drags - 1}, as there are {counted(drags, 'pose')} in start_rot, got "
            f"{drag.min()} to {drag.max()}; add the poses that are missing"
        )
    unused = np.setdiff1d(np.arange(drags), drag)
    if len(unused):
        raise ValueError(
            f"start_rot: expected only poses that a drag begins with, got {drags} of which {len(unused)} are in no row of "
            f"drag, the first is {unused[0]}; leave them out, or add their rows"
        )
    if np.count_nonzero(np.diff(drag)) + 1 != drags:
        raise ValueError("drag: expected the rows of a drag to stand together, got them apart; sort the rows by drag")
    kinds, points, extra_weights = _extras_of_arrays(found, skeleton, count)
    return DragTargets(
        skeleton,
        positions,
        weights,
        drag.astype(int),
        start_rot,
        start_root_pos,
        ground,
        kinds,
        points,
        extra_weights,
    )


def _extras_of_arrays(
    found: dict[str, np.ndarray], skeleton: Skeleton, count: int
) -> tuple[tuple[tuple[str, int], ...], np.ndarray, np.ndarray]:
    """Kinds and bones (K), points (N, K, 3) and weights (N, K) of targets beside the effectors."""
    given = [name for name in (*_EXTRA_FIELDS, "extra_weights") if name in found]
    if not given:
        return (), np.zeros((count, 0, 3)), np.zeros((count, 0))
    if any(name not in found for name in _EXTRA_FIELDS):
        raise ValueError(
            f"extra targets: expected {', '.join(_EXTRA_FIELDS)}, got {', '.join(given)} only; add the others"
        )
    for name in _EXTRA_FIELDS[:2]:
        array = found[name]
        if array.ndim != 1 or (array.size and array.dtype.kind != "U"):
            raise ValueError(
                f"{name}: expected a list of words, got {array.dtype} of shape {array.shape}; save them as text"
            )
    kinds, names = ([str(word) for word in found[name]] for name in _EXTRA_FIELDS[:2])
    if len(kinds) != len(names):
        raise ValueError(
            f"extra_kinds: expected one for each of the {len(names)} extra_bones, got {len(kinds)}; add the others"
        )
    unknown = [name for name in names if name not in skeleton.names]
    if unknown:
        raise ValueError(
            f"extra_bones: expected bones of the rig, got {', '.join(map(short, unknown[:6]))}; correct the names"
        )
    points = _numbers(found, "extra_points", (count, len(kinds), 3), "one for each entry of drag, extra targets, xyz")
    farthest = FARTHEST * max(1.0, skeleton.leg_length)
    _require_range("extra_points", points, -farthest, farthest, "are they metres?")
    weights = np.ones((count, len(kinds)))
    if "extra_weights" in found:
        weights = _numbers(found, "extra_weights", weights.shape, "one for each entry of drag, extra targets")
        _require_range("extra_weights", weights, 0, 1, "0 switches a target off")
    bones = [skeleton.names.index(name) for name in names]
    prepare([ExtraTarget(*pair, np.zeros(3)) for pair in zip(kinds, bones, strict=True)], skeleton)
    return tuple(zip(kinds, bones, strict=True)), points, weights


def _numbers(found: dict[str, np.ndarray], name: str, shape: tuple[int, ...], meaning: str) -> np.ndarray:
    """An array of a file as float64, of that shape and finite; ValueError says what was expected."""
    array = found[name]
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name}: expected real numbers, got {array.dtype}; save them as float64")
    if array.shape != shape:
        raise ValueError(f"{name}: expected numbers of shape {shape} ({meaning}), got {array.shape}; leave none out")
    made: np.ndarray = array.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(made.reshape(len(made) if shape else 1, -1)).all(axis=1))
    if len(bad):
        raise ValueError(
            f"{name}: expected finite numbers, got NaN or infinity in {counted(len(bad), 'row')}, the first is {bad[0]}; "
            "fill them in"
        )
    return made


def _require_range(name: str, array: np.ndarray, least: float, most: float, advice: str) -> None:
    bad = (array < least) | (array > most)
    if bad.any():
        row = int(np.flatnonzero(bad.reshape(len(array), -1).any(axis=1))[0])
        raise ValueError(
            f"{name}: expected numbers from {least:g} to {most:g}, got {array[bad][0]:g} in row {row}; {advice}"
        )


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
        yield drag.solve(positions, targets.weights[row], extras=targets.extras(row))


def save(
    path: str | os.PathLike[str], skeleton: Skeleton, rot: np.ndarray, root_pos: np.ndarray, error: np.ndarray
) -> None:
    """Write the answers: rot (N, J, 3) [rad], root_pos (N, 3) [m], errors (N, E) [m]; whole or not at all."""
    buffer = io.BytesIO()
    np.savez(buffer, bone_names=np.array(skeleton.names), rot=rot, root_pos=root_pos, effector_error=error)
    write_whole(path, buffer.getvalue())
