# SPDX-License-Identifier: GPL-3.0-or-later
"""BVH files to Clip and back. Every dialect that can be understood is read; every doubt becomes a warning.

NumPy turns the motion block into numbers in one pass. Only if that pass does not add up (text among the numbers, decimal
commas, rows of the wrong length) are its words looked at one by one. The header is read in ``bvh_header``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..core.files import read_bytes, whole_file
from ..core.messages import counted, short
from ..core.rotations import matrix_from_quaternion
from ..motion.clip import (
    Clip,
    body_top,
    checked_up_axis,
    guess_unit,
    guess_up_axis,
    helper_notes,
    without_rigid,
    without_stale_offset,
)
from .bvh_header import (
    FALLBACK_FPS,
    MAX_CHANNELS,
    BvhJoint,
    read_hierarchy,
    read_motion_header,
    split_header,
    unique_joint_names,
)
from .clip_limits import MAX_VALUE, interpolate_rotations, max_joints
from .rows import NumberText, Rows, find_rows, text_with_cleanup
from .text import Notes, normalized_bytes


def read(path: str | Path, *, up_axis: str | None = None, unit: float | None = None, fps: float | None = None) -> Clip:
    """Read one BVH file.

    Args:
        path: the file.
        up_axis: one of ``motion.clip.UP_AXES``, or None to detect whether it is Y or Z.
        unit: length of one file unit [m], or None to detect it from the figure's height.
        fps: frames per second to use instead of the file's frame time.

    A file without frames gives a clip of 0 frames and a warning. Raises ValueError with file, line and joint if the file
    cannot be understood, OSError if it cannot be opened.
    """
    path = Path(path)
    return parse(read_bytes(path, "motion (.bvh)"), path.stem, source=path.name, up_axis=up_axis, unit=unit, fps=fps)


def parse(
    data: bytes,
    name: str = "clip",
    *,
    source: str | None = None,
    up_axis: str | None = None,
    unit: float | None = None,
    fps: float | None = None,
) -> Clip:
    """Read BVH from bytes; messages call the file ``source``. Otherwise the same as ``read``."""
    source = source or name
    up = checked_up_axis(up_axis)
    notes = Notes(source)
    data = normalized_bytes(data, source, notes)
    start, text = split_header(data, source)
    joints = read_hierarchy(text, source, notes)
    del text
    names = unique_joint_names(joints, notes)
    header = read_motion_header(data, start, notes)
    try:
        trial = notes.copy()
        clip = _read_motion(data, header.begin, joints, names, header.frames, source, trial, plain=True)
        notes = trial
    except ValueError:  # perhaps not all words are numbers
        clip = _read_motion(data, header.begin, joints, names, header.frames, source, notes, plain=False)
    clip = replace(clip, name=name, fps=header.fps if fps is None else fps)
    for what, place in helper_notes(clip):
        notes.add(what, place)
    found_up, up_note = guess_up_axis(clip)
    clip = replace(clip, up_axis=up or found_up)
    found_unit, unit_note = guess_unit(clip)
    clip = replace(clip, unit=float(unit) if unit is not None else found_unit)
    if up is None and up_note:
        notes.add(up_note)
    if unit is None and unit_note:
        notes.add(unit_note)
    clip, stale = without_stale_offset(clip)
    if stale:
        notes.add(stale, f"joint {short(clip.names[body_top(clip)])}")
    return replace(clip, warnings=notes.sentences())


# ---------------------------------------------------------------- rows of numbers


@dataclass(frozen=True)
class _Columns:
    """Which column of a row belongs to which joint and channel."""

    channels: tuple[tuple[str, ...], ...]
    starts: np.ndarray
    width: int


def _columns(joints: Sequence[BvhJoint], declared: bool = False) -> _Columns:
    """The columns by the names of the channels; or, with ``declared``, by their declared numbers."""
    channels: list[tuple[str, ...]] = []
    shared: dict[tuple[str, ...], tuple[str, ...]] = {}
    for joint in joints:
        own = list(joint.channels)
        if declared and joint.declared is not None and joint.declared <= MAX_CHANNELS:
            own = (own + ["-"] * joint.declared)[: joint.declared]
        channels.append(shared.setdefault(tuple(own), tuple(own)))
    counts = [len(own) for own in channels]
    return _Columns(tuple(channels), np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(int), int(sum(counts)))


def _read_motion(
    data: bytes,
    begin: int,
    joints: Sequence[BvhJoint],
    names: tuple[str, ...],
    declared: int | None,
    source: str,
    notes: Notes,
    plain: bool,
) -> Clip:
    """The motion block as a clip without its name, rate, axes and unit; ``declared`` is the number of frames in the header.

    ``plain`` assumes that all words are plain numbers and raises ValueError for any other word; otherwise all oddities
    are handled.
    """
    columns, by_number = _columns(joints), _columns(joints, declared=True)
    if columns.width == 0:
        if data[begin:].strip():
            notes.add("no joint has a channel, so nothing in the motion block can be read")
        rows = Rows(NumberText(data, len(data), len(data)), 0, 0)
    else:

        def joint_of(column: int) -> str:
            if column >= columns.width:
                return "beyond the last joint"
            return joints[int(np.searchsorted(columns.starts, column, side="right")) - 1].name

        if plain:
            text = NumberText(data, begin, len(data))
        else:
            text = text_with_cleanup(data, begin, columns.width, source, notes)
        rows, which = find_rows(text, (columns.width, by_number.width), declared, names, joint_of, source, notes)
        columns = (columns, by_number)[which]
    if declared is not None and declared != rows.count:
        notes.add(f"the header says {counted(declared, 'frame')}, the file holds {rows.count:,}; those were read")
    if rows.count == 0:
        notes.add("no frames; only the rest pose was read, there is no motion to learn from")
    elif rows.count == 1:
        notes.add("a single frame; it is a pose, there is no motion to learn from")
    return _assemble(source, _clip_joints(joints, names, columns, rows.count, len(data), source, notes), rows, notes)


# ---------------------------------------------------------------- values to Clip


@dataclass(frozen=True)
class _ClipJoints:
    """The joints of the clip, and where their values are in a row."""

    names: tuple[str, ...]
    parents: np.ndarray
    offsets: np.ndarray
    tips: dict[int, np.ndarray]
    channels: tuple[tuple[str, ...], ...]
    starts: np.ndarray

    def position_columns(self, joint: int) -> dict[str, int]:
        """Axis -> column of a joint's positions."""
        return {c[0]: int(self.starts[joint]) + k for k, c in enumerate(self.channels[joint]) if c[1:] == "p"}

    def rotation_columns(self, joint: int) -> list[int]:
        """Columns of a joint's rotations in the file's order; an axis may occur twice."""
        return [int(self.starts[joint]) + k for k, c in enumerate(self.channels[joint]) if c[1:] == "r"]


def _clip_joints(
    joints: Sequence[BvhJoint],
    names: tuple[str, ...],
    columns: _Columns,
    frames: int,
    size: int,
    source: str,
    notes: Notes,
) -> _ClipJoints:
    """The joints of the clip: all of them, unless most never move and the clip would be many times as large as the file."""
    parents = np.array([joint.parent for joint in joints])
    offsets = np.array([joint.offset for joint in joints], dtype=np.float64)
    tips = {i: joint.tip for i, joint in enumerate(joints) if joint.tip is not None}
    moving = sum(any(c[1:] == "p" for c in channels) for channels in columns.channels)
    limit = max_joints(frames, size, moving)
    kept = np.arange(len(joints))
    if len(joints) > limit:
        rigid = np.array([not any(c != "-" for c in channels) for channels in columns.channels])
        kept, parents, offsets, tips = without_rigid(parents, offsets, tips, rigid, int(limit))
        if len(kept) < len(joints):
            notes.add(
                f"{counted(len(joints) - len(kept), 'joint')} of {len(joints)} without channels merged into the joints "
                "around: with all of them the clip would be many times as large as the file"
            )
    if len(kept) > limit and frames:
        raise ValueError(
            f"{source}: {frames} frames of {len(kept)} joints would be many times as large as the file; "
            "expected three channels for each joint, or none for most of them"
        )
    return _ClipJoints(
        tuple(names[i] for i in kept),
        parents,
        offsets,
        tips,
        tuple(columns.channels[i] for i in kept),
        columns.starts[kept],
    )


_FOLDED = 0.02  # of its OFFSET: a position this short would fold a bone away
_FEWEST_FOLDED = 3  # joints: one or two of them may well lie at one point


@dataclass(frozen=True)
class _Missing:
    """Values that are not finite numbers, per frame and joint."""

    rotations: np.ndarray
    positions: np.ndarray


def _assemble(source: str, joints: _ClipJoints, rows: Rows, notes: Notes) -> Clip:
    rotations, positions, missing, count = _read_values(joints, rows)
    if count > 0.5 * rows.count * rows.width:
        raise ValueError(
            f"{source}: {count} of {rows.count * rows.width} motion values are not finite numbers; "
            "expected most of them to be"
        )
    repaired = () if missing is None else _fill_in(joints, rotations, positions, missing, notes)
    root_pos = positions.pop(0) if 0 in positions else np.tile(joints.offsets[0], (rows.count, 1))
    clip = Clip(
        name="",
        names=joints.names,
        parents=joints.parents,
        offsets=joints.offsets,
        tips=joints.tips,
        rotations=rotations,
        root_pos=root_pos,
        fps=FALLBACK_FPS,
        translations=_translations(joints, positions, notes) if rows.count else {},
        repaired=repaired,
    )
    _note_translations(clip, notes)
    return clip


def _read_values(joints: _ClipJoints, rows: Rows) -> tuple[np.ndarray, dict[int, np.ndarray], _Missing | None, int]:
    """Rotations (F, J, 4), positions (F, 3) by joint, which values are missing (None for none) and how many.

    Missing values are read as 0.
    """
    frames, count = rows.count, len(joints.names)
    rotations = np.empty((frames, count, 4))
    by_order: dict[str, list[int]] = {}
    for i, channels in enumerate(joints.channels):
        by_order.setdefault("".join(c[0] for c in channels if c[1:] == "r"), []).append(i)
    rotations[:, by_order.pop("", [])] = (1, 0, 0, 0)
    rotating = [
        (order, members, np.array([joints.rotation_columns(i) for i in members]).T)
        for order, members in by_order.items()
    ]
    moving = {i: axes for i in range(count) if (axes := joints.position_columns(i))}
    positions = {i: np.empty((frames, 3)) for i in moving}
    missing: _Missing | None = None
    total = at = 0
    for block in rows.blocks():
        here = slice(at, at + len(block))
        if not (block.min() > -MAX_VALUE and block.max() < MAX_VALUE):
            bad = ~(np.abs(block) < MAX_VALUE)
            if missing is None:
                missing = _Missing(np.zeros((frames, count), bool), np.zeros((frames, count), bool))
            for i in range(count):
                missing.rotations[here, i] = bad[:, joints.rotation_columns(i)].any(axis=1)
                missing.positions[here, i] = bad[:, list(joints.position_columns(i).values())].any(axis=1)
            total += int(np.count_nonzero(bad))
            block = np.where(bad, 0.0, block)
        for order, members, columns in rotating:
            rotations[here, members] = _quaternions(block[:, columns], order)
        for i, axes in moving.items():
            positions[i][here] = joints.offsets[i]
            for letter, column in axes.items():
                positions[i][here, "XYZ".index(letter)] = block[:, column]
        at += len(block)
    return rotations, positions, missing, total


def _fill_in(
    joints: _ClipJoints, rotations: np.ndarray, positions: dict[int, np.ndarray], missing: _Missing, notes: Notes
) -> tuple[int, ...]:
    """Fill in missing rotations and positions from the frames around them, in place; returns the frames concerned."""
    rotated, moved = missing.rotations, missing.positions
    for i in np.flatnonzero(rotated.all(axis=0)).tolist():
        notes.add("no finite rotation in any frame; it was left at rest", f"joint {short(joints.names[i])}")
        rotations[:, i] = (1, 0, 0, 0)
        rotated[:, i] = False
    for i in np.flatnonzero(moved.all(axis=0)).tolist():
        notes.add("no finite position in any frame; its OFFSET was used", f"joint {short(joints.names[i])}")
        positions.pop(i)
        moved[:, i] = False
    frames = np.flatnonzero(rotated.any(axis=1) | moved.any(axis=1)).tolist()
    for frame in frames:
        hit = np.flatnonzero(rotated[frame] | moved[frame])
        more = f" and {len(hit) - 1} more" if len(hit) > 1 else ""
        notes.add(
            "not a finite number; interpolated from the neighbouring frames",
            f"frame {frame + 1}, joint {short(joints.names[hit[0]])}{more}",
        )
    for i in np.flatnonzero(rotated.any(axis=0)).tolist():
        rotations[:, i] = interpolate_rotations(rotations[:, i], rotated[:, i])
    for i in np.flatnonzero(moved.any(axis=0)).tolist():
        known = np.flatnonzero(~moved[:, i])
        for k in range(3):
            positions[i][:, k] = np.interp(np.arange(len(moved)), known, positions[i][known, k])
    return tuple(frames)


def _translations(joints: _ClipJoints, positions: dict[int, np.ndarray], notes: Notes) -> dict[int, np.ndarray]:
    """The positions (F, 3) of the joints where they differ from the OFFSET."""
    positions = _from_differences(joints, positions, notes)
    tolerance = _tolerance(joints.offsets)
    kept = {}
    for i, moved in positions.items():
        away = max(
            np.abs(moved.min(axis=0) - joints.offsets[i]).max(), np.abs(moved.max(axis=0) - joints.offsets[i]).max()
        )
        if away > tolerance:
            kept[i] = moved
    return kept


def _tolerance(offsets: np.ndarray) -> float:
    """Length [file units] below which positions of joints count as equal."""
    return 2e-7 * (float(np.abs(offsets).sum()) or 1.0)


def _from_differences(joints: _ClipJoints, positions: dict[int, np.ndarray], notes: Notes) -> dict[int, np.ndarray]:
    """Positions relative to the parent; where a file writes them relative to the OFFSET, which is noted, that is added.

    Read as BVH defines them, positions near zero would fold the whole figure into one point.
    """
    limbs = [
        i for i in positions if joints.parents[i] >= 0 and np.abs(joints.offsets[i]).max() > _tolerance(joints.offsets)
    ]
    bones = np.array([np.linalg.norm(joints.offsets[i]) for i in limbs])
    sizes = np.array([np.median(np.linalg.norm(positions[i], axis=1)) for i in limbs])
    folded = sizes < _FOLDED * bones
    if np.count_nonzero(folded) < max(_FEWEST_FOLDED, 0.5 * len(limbs)):
        return positions
    changed = [i for i, short_bone in zip(limbs, sizes < 0.5 * bones, strict=True) if short_bone]
    notes.add(
        f"the positions of {counted(len(changed), 'joint')}, {short(joints.names[changed[0]])!r} first, are near zero and would fold "
        "the figure into a point; they were read as differences from the OFFSETs"
    )
    return {
        i: moved + joints.offsets[i] if i in changed else moved
        for i, moved in positions.items()
        if i not in changed or np.abs(moved).max() > 1e-3 * np.linalg.norm(joints.offsets[i])
    }


def _note_translations(clip: Clip, notes: Notes) -> None:
    """Note the joints whose positions differ from their OFFSET, except for the one that carries the whole figure."""
    top = body_top(clip)
    ranges = [(float(np.ptp(moved, axis=0).max()), clip.names[i]) for i, moved in clip.translations.items() if i != top]
    moving = [size for size, _ in ranges if size > _tolerance(clip.offsets)]
    if moving:
        largest, joint = max(ranges)
        notes.add(
            f"the positions of {counted(len(moving), 'joint')} below the root move, "
            f"{short(joint)!r} most, by {largest:.4g} units; "
            "they are kept in the clip, a rig with fixed bone lengths ignores them"
        )
    elif ranges:
        notes.add(
            f"a constant position that differs from the OFFSET in {counted(len(ranges), 'joint')}, {short(ranges[0][1])!r} "
            "first; the position was used, as BVH defines it"
        )


def _quaternions(degrees: np.ndarray, order: str) -> np.ndarray:
    """Euler angles (F, n, J) [deg] about the axes ``order``, composed left to right, to quaternions (F, J, 4)."""
    half = degrees * (np.pi / 360)
    cosine, sine = np.cos(half), np.sin(half)
    w = np.ones(half[:, 0].shape)
    x, y, z = np.zeros_like(w), np.zeros_like(w), np.zeros_like(w)
    for i, letter in enumerate(order):
        c, s = cosine[:, i], sine[:, i]
        if letter == "X":
            w, x, y, z = w * c - x * s, x * c + w * s, y * c + z * s, z * c - y * s
        elif letter == "Y":
            w, x, y, z = w * c - y * s, x * c - z * s, y * c + w * s, z * c + x * s
        else:
            w, x, y, z = w * c - z * s, x * c + y * s, y * c - x * s, z * c + w * s
    return np.stack([w, x, y, z], axis=-1)


# ---------------------------------------------------------------- writing


def write(path: str | Path, clip: Clip) -> None:
    """Write a clip as BVH in its own axes and units, whole or not at all.

    Rotations are written as Zrotation Yrotation Xrotation, positions for roots and for joints in ``translations``. Joints
    without a tip get no End Site. Raises ValueError if the clip has no joint or a name holds a line break or a brace.
    """
    if not clip.names:
        raise ValueError("a BVH needs at least one joint, got a clip without any")
    with whole_file(path) as out:
        for line in _bvh_lines(clip):
            out.write(f"{line}\n".encode())


def _bvh_lines(clip: Clip) -> Iterator[str]:
    for name in clip.names:
        if not name.strip() or re.search(r"[\n\r{}]", name):
            raise ValueError(f"a BVH joint name cannot hold braces or line breaks or be empty, got {name!r}")
    children: dict[int, list[int]] = {}
    for i, parent in enumerate(clip.parents):
        children.setdefault(int(parent), []).append(i)
    yield "HIERARCHY"
    order: list[int] = []
    todo: list[tuple[int, int]] = [(i, 0) for i in reversed(children.get(-1, []))]
    while todo:
        i, depth = todo.pop()
        indent = "\t" * depth
        if i < 0:
            yield f"{indent}}}"
            continue
        order.append(i)
        moves = clip.parents[i] < 0 or i in clip.translations
        yield f"{indent}{'ROOT' if clip.parents[i] < 0 else 'JOINT'} {clip.names[i]}"
        yield f"{indent}{{"
        yield f"{indent}\tOFFSET {_numbers(clip.offsets[i])}"
        channels = "Zrotation Yrotation Xrotation"
        yield f"{indent}\tCHANNELS {'6 Xposition Yposition Zposition ' if moves else '3 '}{channels}"
        if i in clip.tips:
            yield f"{indent}\tEnd Site"
            yield f"{indent}\t{{"
            yield f"{indent}\t\tOFFSET {_numbers(clip.tips[i])}"
            yield f"{indent}\t}}"
        todo.append((-1, depth))
        todo.extend((child, depth + 1) for child in reversed(children.get(i, [])))
    yield "MOTION"
    yield f"Frames: {clip.frames}"
    yield f"Frame Time: {1 / clip.fps:.10f}"
    for frame in range(clip.frames):
        angles = np.degrees(_zyx_from_quaternions(clip.rotations[frame]))
        words = []
        for i in order:
            if i == 0:
                words.append(_numbers(clip.root_pos[frame]))
            elif i in clip.translations:
                words.append(_numbers(clip.translations[i][frame]))
            elif clip.parents[i] < 0:
                words.append(_numbers(clip.offsets[i]))
            words.append(_numbers(angles[i]))
        yield " ".join(words)


def _numbers(vector: np.ndarray) -> str:
    return " ".join(f"{value:z.6f}" for value in vector)


def _zyx_from_quaternions(quaternions: np.ndarray) -> np.ndarray:
    """Angles (..., 3) [rad] about Z, Y, X of quaternions (..., 4), R = Rz Ry Rx; at Y = +-90 degrees X is 0."""
    matrix = matrix_from_quaternion(quaternions)
    flat = np.hypot(matrix[..., 0, 0], matrix[..., 1, 0])
    y = np.arctan2(-matrix[..., 2, 0], flat)
    locked = flat < 1e-9
    z = np.where(
        locked, np.arctan2(-matrix[..., 0, 1], matrix[..., 1, 1]), np.arctan2(matrix[..., 1, 0], matrix[..., 0, 0])
    )
    x = np.where(locked, 0.0, np.arctan2(matrix[..., 2, 1], matrix[..., 2, 2]))
    return np.stack([z, y, x], axis=-1)
