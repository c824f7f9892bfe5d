# SPDX-License-Identifier: GPL-3.0-or-later
"""Acclaim motions (.amc) on the skeleton of an .asf."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..core.messages import counted, short
from ..core.rotations import quaternion_from_matrix
from ..motion.clip import Clip, without_rigid
from .asf import AsfSkeleton, euler_matrices
from .clip_limits import MAX_VALUE, interpolate_rotations, max_joints
from .text import Notes, decode, normalized_bytes, parse_number

FALLBACK_FPS = 120.0  # [1/s] AMC files rarely name their rate; most come from the CMU database, which is at 120
_AT_ONCE = 256  # frames turned into rotations at once
_LINES_AT_ONCE = 1 << 13  # [bytes] of text divided into lines at once
_MAX_NAMES = 512  # first words of lines that are remembered: most lines begin with one of the skeleton's bones
_MAX_WORDS = 24  # of a bone's line that are read


@dataclass(frozen=True)
class _Survey:
    """What a first pass over a motion finds."""

    frames: int
    degrees: bool
    rate: float | None
    bones: frozenset[str]
    """The skeleton's bones that have a line somewhere."""


def read_motion(data: bytes, skeleton: AsfSkeleton, size: int, notes: Notes) -> tuple[Clip, float | None]:
    """The motion on its skeleton, without name, rate, axes and unit; and its frames per second if the file names them.

    The text is read twice, once to count and once to read, so that memory grows only with the clip. ``size`` is that of
    both files together [bytes]; a clip may only be so many times as large. Raises ValueError with file, line and bone if
    the motion cannot be understood.
    """
    data = normalized_bytes(data, notes.source, notes, "an AMC file with numbered frames")
    survey = _survey(data, skeleton, notes)
    kept, parents, offsets, tips = _clip_joints(skeleton, survey, size, notes)
    rotations = np.empty((survey.frames, len(kept), 4))
    root_pos = np.tile(skeleton.offsets[0], (survey.frames, 1))
    no_rotation = np.zeros((survey.frames, len(kept)), bool)
    no_position = np.zeros((survey.frames, 3), bool)
    starts = np.cumsum([0, *(len(dof) for dof in skeleton.dof)])
    factor = np.pi / 180 if survey.degrees else 1.0
    at = 0
    bones_per_frame = array("H")
    for values, missing in _blocks(data, skeleton, bones_per_frame, notes):
        here = slice(at, at + len(values))
        for k, i in enumerate(kept):
            columns = [int(starts[i]) + n for n, d in enumerate(skeleton.dof[i]) if d.startswith("r")]
            local = np.broadcast_to(np.eye(3), (len(values), 3, 3))
            if columns:
                order = "".join(d[1].upper() for d in skeleton.dof[i] if d.startswith("r"))
                local = skeleton.axes[i] @ euler_matrices(values[:, columns] * factor, order) @ skeleton.axes[i].T
            rotations[here, k] = quaternion_from_matrix(local)
            no_rotation[here, k] = missing[:, columns].any(axis=1) & (skeleton.names[i] in survey.bones)
        for n, d in enumerate(skeleton.dof[0]):
            if d.startswith("t") and skeleton.names[0] in survey.bones:
                root_pos[here, "xyz".index(d[1])] = values[:, n]
                no_position[here, "xyz".index(d[1])] = missing[:, n]
        at += len(values)
    frames = survey.frames
    if frames > 1 and bones_per_frame[-1] < max(bones_per_frame[:-1]):
        notes.add("the last frame is incomplete and was dropped")
        frames -= 1
    rotations, root_pos = rotations[:frames], root_pos[:frames]
    names = tuple(skeleton.names[i] for i in kept)
    _note_rest(skeleton, survey, notes)
    repaired = _fill_in(rotations, root_pos, no_rotation[:frames], no_position[:frames], skeleton, names, notes)
    _note_stretching(skeleton, notes)
    clip = Clip(
        name="",
        names=names,
        parents=parents,
        offsets=offsets,
        tips=tips,
        rotations=rotations,
        root_pos=root_pos,
        fps=FALLBACK_FPS,
        repaired=repaired,
    )
    return clip, survey.rate


def _fill_in(
    rotations: np.ndarray,
    root_pos: np.ndarray,
    no_rotation: np.ndarray,
    no_position: np.ndarray,
    skeleton: AsfSkeleton,
    names: Sequence[str],
    notes: Notes,
) -> tuple[int, ...]:
    """Fill in missing values from the frames around them, in place; returns the frames concerned, which are noted."""
    for k in np.flatnonzero(no_rotation.any(axis=0)).tolist():
        rotations[:, k] = interpolate_rotations(rotations[:, k], no_rotation[:, k])
    for axis in np.flatnonzero(no_position.any(axis=0)).tolist():
        known = np.flatnonzero(~no_position[:, axis])
        root_pos[:, axis] = (
            np.interp(np.arange(len(root_pos)), known, root_pos[known, axis])
            if len(known)
            else skeleton.offsets[0, axis]
        )
    frames = np.flatnonzero(no_rotation.any(axis=1) | no_position.any(axis=1)).tolist()
    for frame in frames:
        hit = np.flatnonzero(no_rotation[frame])
        bone = names[hit[0]] if len(hit) and not no_position[frame].any() else names[0]
        what = "values missing; interpolated from the neighbouring frames"
        notes.add(what, f"frame {frame + 1}, bone {short(bone)}")
    return tuple(frames)


def _note_rest(skeleton: AsfSkeleton, survey: _Survey, notes: Notes) -> None:
    resting = [n for n, dof in zip(skeleton.names, skeleton.dof, strict=True) if dof and n not in survey.bones]
    if resting:
        listed = ", ".join(map(short, resting[:6])) + (", ..." if len(resting) > 6 else "")
        notes.add(f"no frame has a line for {listed}; they were left at rest")


def _note_stretching(skeleton: AsfSkeleton, notes: Notes) -> None:
    stretching = [
        name
        for name, dof in zip(skeleton.names[1:], skeleton.dof[1:], strict=True)
        if any(d.startswith("t") or d == "l" for d in dof)
    ]
    if stretching:
        notes.add(f"bones {', '.join(map(short, stretching[:6]))} also move or stretch; only their rotation was read")


def _clip_joints(
    skeleton: AsfSkeleton, survey: _Survey, size: int, notes: Notes
) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[int, np.ndarray]]:
    """Indices, parents, offsets and tips of the clip's joints: all, unless most never move and the clip would be too large."""
    inner = {int(parent) for parent in skeleton.parents}
    count = len(skeleton.names)
    tips = {i: skeleton.ends[i] for i in range(1, count) if i not in inner}
    limit = max_joints(survey.frames, size)
    rigid = np.array([name not in survey.bones for name in skeleton.names])
    kept, parents, offsets, tips = without_rigid(skeleton.parents, skeleton.offsets, tips, rigid, max(limit, 1))
    if len(kept) < count:
        notes.add(
            f"{counted(count - len(kept), 'bone')} of {count} without a line in any frame merged into those around: "
            "with all of them the clip would be many times as large as the file"
        )
    if len(kept) > limit and survey.frames:
        raise ValueError(
            f"{notes.source}: {survey.frames} frames, but few lines in them; expected a line for each bone in every frame"
        )
    return kept, parents, offsets, tips


def _survey(data: bytes, skeleton: AsfSkeleton, notes: Notes) -> _Survey:
    """Count the frames of a motion, and note what does not fit the skeleton."""
    lower = {name.lower(): name for name in skeleton.names}
    bone_of = _finder(skeleton.names)
    degrees, rate = skeleton.degrees, None
    previous, jumps, frames = None, 0, 0
    named: set[str] = set()
    unknown: set[str] = set()
    for number, head, words, frame in _motion_lines(data):
        if frame is not None:
            frames += 1
            jumps += previous is not None and frame != previous + 1
            previous = frame
        elif head.startswith(":"):
            key = " ".join([head, *(word.decode("latin-1") for word in words[1:])]).upper()
            if ":DEG" in key or ":RAD" in key:
                degrees = ":DEG" in key
            elif key.startswith((":SAMPLES", ":FPS", ":RATE", ":FRAMERATE")) and len(words) > 1:
                rate = parse_number(words[1])
                if rate is None or not 0.1 <= rate <= 10_000:
                    text = words[1][:20].decode("latin-1")
                    notes.add(f"the rate {text!r} is not a number of frames per second", f"line {number}")
                    rate = None
        elif not frames:
            if len(words) > 1 and head.lower() in lower:
                raise ValueError(f"{notes.source}, line {number}: expected a frame number before the bone {head!r}")
        else:
            name, _ = bone_of(head)
            if name:
                named.add(name)
            elif head not in unknown:
                unknown.add(head)
                notes.add(f"the skeleton has no bone {short(head)!r}; its values were ignored", f"line {number}")
                if len(unknown) > 1000:
                    raise ValueError(
                        f"{notes.source}, line {number}: no bone of this file is in the skeleton; is it the right .asf?"
                    )
    if not frames:
        raise ValueError(f"{notes.source}: not an AMC file; expected numbered frames with a line for each bone")
    if not named:
        listed = ", ".join(map(short, skeleton.names[:5]))
        raise ValueError(f"{notes.source}: no bone of this file is in the skeleton ({listed}, ...)")
    if jumps:
        notes.add(f"{counted(jumps, 'jump')} of the frame numbers ignored")
    return _Survey(frames, degrees, rate, frozenset(named))


def _motion_lines(data: bytes) -> Iterator[tuple[int, str, list[bytes], int | None]]:
    """For every line: its number, its first word, its words, and the frame's number if it has one; without comments.

    A line of numbers continues the line before.
    """
    before: tuple[int, str, list[bytes], int | None] | None = None
    for number, head, words in _plain_lines(data):
        frame = _frame_number(head, words) if len(words) < 3 else None
        if frame is None and head[0] in "+-.0123456789" and before and before[3] is None and before[1][0] != ":":
            before = (*before[:2], [*before[2], *words][: _MAX_WORDS + 1], None)
            continue
        if before:
            yield before
        before = (number, head, words, frame)
    if before:
        yield before


def _plain_lines(data: bytes) -> Iterator[tuple[int, str, list[bytes]]]:
    number = begin = 0
    decoded = lru_cache(_MAX_NAMES)(lambda head: head.decode("latin-1") if head.isascii() else decode(head))
    while begin < len(data):
        end = data.find(b"\n", begin + _LINES_AT_ONCE) + 1 or len(data)
        for line in data[begin:end].removesuffix(b"\n").split(b"\n"):
            number += 1
            words = (line.split(b"#", 1)[0] if b"#" in line else line).split(None, _MAX_WORDS)
            if words:
                yield number, decoded(words[0][:1000]), words
        begin = end


def _frame_number(head: str, words: list[bytes]) -> int | None:
    if (
        len(words) == 1
        and head[0] in "-0123456789"
        and ((head.isdecimal() and head.isascii()) or re.fullmatch(r"-?[0-9]+(?:\.0*)?", head))
    ):
        return int(float(head)) if len(head) < 15 else -1
    if len(words) == 2 and head.lower() in ("frame", "frame:", ":frame", "frame#") and words[1].isdigit():
        return int(words[1][:15])
    return None


def _finder(names: Sequence[str]) -> Callable[[str], tuple[str, list[bytes]]]:
    """A function that gives the bone of a line's first word, "" if there is none, and the value that is part of that word.

    The name may be in any case, have a colon, or touch the first number.
    """
    known = frozenset(names)
    lower = {name.lower(): name for name in names}

    @lru_cache(_MAX_NAMES)
    def find(head: str) -> tuple[str, list[bytes]]:
        name = head if head in known else lower.get(head.lower().rstrip(":"), "")
        if name:
            return name, []
        joined = re.match(r"(.*[^-+.\d])([-+]?\.?\d.*)", head)
        if joined and (name := lower.get(joined.group(1).lower(), "")):
            return name, [joined.group(2).encode()]
        return "", []

    return find


def _blocks(
    data: bytes, skeleton: AsfSkeleton, bones_per_frame: array[int], notes: Notes
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Values (n, W) in the order of ``skeleton.dof``, 0 for missing ones, and the mask (n, W) of those that are missing.

    The number of bones with values in each frame is appended to ``bones_per_frame``.
    """
    starts, width = {}, 0
    for name, dof in zip(skeleton.names, skeleton.dof, strict=True):
        starts[name] = (width, len(dof))
        width += len(dof)
    bone_of = _finder(skeleton.names)
    dofs = dict(zip(skeleton.names, skeleton.dof, strict=True))
    blank = array("d", [np.nan]) * width
    row, values = blank[:], array("d")
    seen: set[str] = set()
    most = max(1, min(_AT_ONCE, (1 << 15) // max(width, 1)))
    begun = False
    wrong = complete = 0
    for number, head, words, frame in _motion_lines(data):
        if frame is not None:
            if begun:
                values.extend(row)
                bones_per_frame.append(len(seen))
            begun, row, seen = True, blank[:], set()
            if len(values) >= most * width and width:
                yield _block(values, width)
                values = array("d")
            continue
        if head.startswith(":") or not begun:
            continue
        name, joined = bone_of(head)
        if not name:
            continue
        given = [*joined, *words[1:]]
        start, length = starts[name]
        found = _split(given, length)
        if len(found) == 3 > length > 0 and (indices := _rotation_indices(dofs[name])):
            found = [found[k] for k in indices]
            notes.add(
                f"three numbers for {length} degrees of freedom; they were read as rx ry rz", f"bone {short(name)}"
            )
        numbers = [parse_number(word) for word in found]
        if name in seen:
            notes.add("listed twice in one frame; the first was used", f"line {number}, bone {short(name)}")
        elif len(numbers) != length or None in numbers:
            wrong += 1
            got = b" ".join(given)[:60].decode("latin-1")
            what = f"expected {length} numbers, got {short(got, 40)!r}; interpolated"
            notes.add(what, f"line {number}, bone {short(name)}")
        else:
            row[start : start + length] = array("d", [n for n in numbers if n is not None])
            complete += 1
        seen.add(name)
        if wrong > 200 and wrong > complete:
            raise ValueError(f"{notes.source}, line {number}: too much of this file does not fit the skeleton")
    if wrong and not complete:
        raise ValueError(f"{notes.source}: no line has the numbers that the skeleton needs; is it the right .asf?")
    values.extend(row)
    bones_per_frame.append(len(seen))
    yield _block(values, width)


def _rotation_indices(dof: tuple[str, ...]) -> list[int]:
    """Indices of a bone's degrees of freedom among rx ry rz; none if one is not a rotation."""
    return ["xyz".index(d[1]) for d in dof] if all(d.startswith("r") for d in dof) else []


def _block(values: array[float], width: int) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(values, dtype=np.float64).reshape(-1, width)
    missing = ~(np.abs(table) < MAX_VALUE)
    table[missing] = 0.0
    return table, missing


def _split(words: list[bytes], length: int) -> list[bytes]:
    """The values of a bone's line; numbers without a space between them (1.5-2.3) are split, decimal commas become dots."""
    if len(words) == length:
        if b"," not in b"".join(words):
            return words
        return [word.replace(b",", b".") for word in words]
    return re.sub(rb"(?<=[\d.])([-+])", rb" \1", b" ".join(words)[:1000]).split()
