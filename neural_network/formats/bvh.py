# SPDX-License-Identifier: GPL-3.0-or-later
"""BVH files to Clip and back: every dialect that can be understood is read, every doubt becomes a warning.

The hierarchy is read as a stream of words, so that line breaks, indents and braces may stand anywhere; a joint's name
is the rest of its line. The motion block is turned into numbers in one pass by NumPy and only looked at word by word
where that pass does not add up (text among the numbers, decimal commas, rows of the wrong length).
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ..rotations import continuous_quaternions, matrix_from_quaternion
from .clip import Clip, guess_unit, guess_up_axis, helper_notes
from .text import CHUNK, decode, parse_number, plain_bytes, read_numbers

FALLBACK_FPS = 30.0  # [1/s] where the file names no usable frame time
MAX_JOINTS = 10_000  # more than ten times the largest face rig; a damaged file must not fill the memory
MAX_VALUE = 1e9  # a motion value beyond this is damage, in any unit
_MAX_NOTES = 12  # warnings of one kind that are spelled out

_WORD = re.compile(
    r"(HIERARCHY|ROOT|JOINT|END[ \t]*_?SITE|END[ \t]*EFFECTOR|END|SITE|OFFSET|CHANNELS?|MOTION|[{}])(?![A-Za-z0-9_])",
    re.I,
)
_STOP = re.compile(r"(?<![A-Za-z0-9_])(?:HIERARCHY|ROOT|JOINT|END|SITE|OFFSET|CHANNELS?|MOTION|FRAMES?)|[{}]", re.I)
_BLANK = re.compile(r"(?:\s+|//[^\n]*|#[^\n]*)+")
_NAME = re.compile(r"[^\n{}]*")
_CHANNEL = re.compile(r"([XYZ])[_-]?(pos|rot|tra|ang)[a-z]*?(?=[XYZ]_?(?:pos|rot|tra|ang)|[^a-z]|$)", re.I)
_HEADER_END = (
    re.compile(rb"(?<![A-Za-z0-9_])(MOTION)(?:\s|#[^\n]*\n|//[^\n]*\n)+FRAME", re.I),
    re.compile(rb"(?:^|[\r\n}])[ \t]*(FRAMES?)[ \t]*[:=]", re.I),
    re.compile(rb"(?:^|[\r\n}])[ \t]*(MOTION)(?![A-Za-z0-9_])", re.I),
    re.compile(rb"(?<=\n)([ \t]*)(?:[-+]?[\d.][-+.\deE]*[ \t]+){5}[-+.\d]"),  # rows of numbers without any heading
)
_MOTION_LINE = re.compile(
    rb"\s*(?:(?P<motion>MOTION)(?![A-Za-z0-9_])|(?P<comment>(?:#|//)[^\n]*)"
    rb"|(?P<time>FRAME[ \t_]*TIME)|(?P<rate>FPS|FRAME[ \t_]*RATE)"
    rb"|(?P<count>(?:NUMBER[ \t]+OF[ \t]+)?FRAMES?(?:[ \t_]*COUNT)?))",
    re.I,
)


@dataclass
class _Joint:
    name: str
    parent: int
    line: int
    offset: np.ndarray | None = None
    channels: list[str] = field(default_factory=list)
    declared: int | None = None
    tip: np.ndarray | None = None


def read(path: str | Path, *, up_axis: str | None = None, unit: float | None = None, fps: float | None = None) -> Clip:
    """Read one BVH file.

    Args:
        path: the file.
        up_axis: 'Y' or 'Z', or None to find it.
        unit: metres in one file unit, or None to find it from the figure's height.
        fps: frames a second to trust instead of the file's frame time.

    A file without frames gives a clip of 0 frames and a warning. Raises ValueError with file, line and joint where the
    file cannot be understood, OSError where it cannot be opened.
    """
    path = Path(path)
    return parse(path.read_bytes(), path.stem, source=path.name, up_axis=up_axis, unit=unit, fps=fps)


def parse(
    data: bytes,
    name: str = "clip",
    *,
    source: str | None = None,
    up_axis: str | None = None,
    unit: float | None = None,
    fps: float | None = None,
) -> Clip:
    """Read BVH from bytes; ``source`` is what messages call the file. Otherwise as ``read``."""
    source = source or name
    notes: list[str] = []
    data = plain_bytes(data, source, notes)
    start, header = _split_header(data, source)
    joints = _read_hierarchy(header, source, notes)
    names = _unique_names(joints, source, notes)
    frames_declared, clip_fps, begin = _read_motion_header(data, start, source, notes)
    size, first_line = len(data), data.count(b"\n", 0, begin) + 1
    block = data[begin:]
    del data, header
    values, bad, layout = _read_values(block, first_line, joints, frames_declared, source, notes)
    del block
    _compare_frames(frames_declared, len(values), source, notes)
    if len(values) * len(joints) * 32 > max(1 << 26, 12 * size):
        raise ValueError(
            f"{source}: {len(values)} frames of {len(joints)} joints, most without channels, would fill the memory; "
            "expected a file in which most joints move"
        )
    clip = _assemble(name, source, names, joints, layout, values, bad, notes)
    if fps is not None:
        clip_fps = fps
    up = up_axis.upper() if up_axis else None
    if up not in (None, "Y", "Z"):
        raise ValueError(f"up axis: expected Y or Z, got {up_axis!r}")
    clip = replace(clip, fps=clip_fps)
    notes += [f"{source}, {note}" for note in helper_notes(clip)]
    found_up, up_note = guess_up_axis(clip)
    clip = replace(clip, up_axis=up or found_up)
    found_unit, unit_note = guess_unit(clip)
    clip = replace(clip, unit=float(unit) if unit is not None else found_unit)
    if up is None and up_note:
        notes.append(f"{source}: {up_note}")
    if unit is None and unit_note:
        notes.append(f"{source}: {unit_note}")
    return replace(clip, warnings=tuple(notes))


def write(path: str | Path, clip: Clip) -> None:
    """Write a clip as BVH in its own axes and units, whole or not at all.

    Rotations are written as Zrotation Yrotation Xrotation, positions for roots and for joints in ``translations``.
    A leaf without a tip gets no End Site when it has no parent, else one as long as a quarter of its own offset.
    Raises ValueError where the clip has no joint or a name holds a line break or a brace.
    """
    if not clip.names:
        raise ValueError("a BVH needs at least one joint, got a clip without any")
    path = Path(path)
    temporary = path.with_name(path.name + ".part")
    try:
        with open(temporary, "w", encoding="utf-8", newline="\n") as out:
            for line in _bvh_lines(clip):
                out.write(line)
                out.write("\n")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


# ---------------------------------------------------------------- text


def _split_header(data: bytes, source: str) -> tuple[int, str]:
    if re.search(rb"^\s*:(?:VERSION|NAME|UNITS|FULLY-SPECIFIED|BONEDATA)", data[:4096], re.I | re.M):
        raise ValueError(f"{source}: this is an ASF or AMC file, not BVH; give it its own suffix .asf or .amc")
    if not re.search(rb"(?<![A-Z0-9_])(?:HIERARCHY|ROOT)(?![A-Z0-9_])", data[:4096], re.I):
        first = data[:40].decode("latin-1").strip().split("\n", 1)[0].strip()
        raise ValueError(f"{source}: not a BVH file; expected HIERARCHY and ROOT near its beginning, got {first!r}")
    for pattern in _HEADER_END:
        found = pattern.search(data)
        if found:
            start = found.start(1)
            return start, decode(data[:start]) if start else ""
    return len(data), decode(data)


# ---------------------------------------------------------------- hierarchy


def _read_hierarchy(text: str, source: str, notes: list[str]) -> list[_Joint]:
    joints: list[_Joint] = []
    stack: list[int] = []  # joint indices; -1 for an End Site
    pending: int | None = None  # a joint or End Site (-1) whose brace has not come yet
    position, line, counted = 0, 1, 0
    skipped = 0

    def where(joint: int | None = None) -> str:
        at = f"{source}, line {line}"
        return at if joint is None or joint < 0 else f"{at}, joint {joints[joint].name}"

    def owner() -> int:
        return next((index for index in reversed(stack) if index >= 0), -1)

    while True:
        blank = _BLANK.match(text, position)
        if blank:
            position = blank.end()
        if position >= len(text):
            break
        line += text.count("\n", counted, position)
        counted = position
        word = _WORD.match(text, position)
        if not word:
            end = text.find("\n", position)
            end = len(text) if end < 0 else end
            stop = _STOP.search(text, position + 1, end)
            end = stop.start() if stop else end
            skipped += 1
            if skipped <= _MAX_NOTES:
                unknown = text[position : max(end, position + 1)].strip()[:40]
                notes.append(f"{where(owner())}: {unknown!r} is not understood and was skipped")
            elif skipped > 1000:
                raise ValueError(f"{where()}: not a BVH hierarchy; too much of it is not understood")
            position = max(end, position + 1)
            continue
        key = word.group(1).upper()
        position = word.end()
        if pending is not None and key != "{":
            if key in ("ROOT", "JOINT", "MOTION", "}", "HIERARCHY"):
                raise ValueError(f"{where(pending)}: expected {{ after the joint's name, got {key}")
            notes.append(f"{where(pending)}: the brace {{ is missing and was assumed")
            stack.append(pending)
            pending = None
        if key == "HIERARCHY":
            continue
        if key == "MOTION":
            break
        if key == "{":
            if pending is None:
                notes.append(f"{where()}: a brace {{ without a joint was ignored")
                continue
            stack.append(pending)
            pending = None
        elif key == "}":
            if stack:
                stack.pop()
            else:
                notes.append(f"{where()}: a closing brace too many was ignored")
        elif key in ("ROOT", "JOINT"):
            name, position = _joint_name(text, position)
            parent = owner()
            if stack and stack[-1] < 0:
                raise ValueError(
                    f"{where(parent)}: an End Site cannot have the child {name!r}; its closing brace is missing"
                )
            if key == "ROOT" and stack:
                notes.append(f"{where(parent)}: ROOT {name!r} stands inside another joint and was read as its child")
            if key == "JOINT" and not stack and joints:
                notes.append(f"{where()}: JOINT {name!r} stands outside every joint and was read as a further root")
            if len(joints) >= MAX_JOINTS:
                raise ValueError(f"{where()}: expected at most {MAX_JOINTS} joints, got more; the file is damaged")
            if not name:
                name = f"joint{len(joints)}"
                notes.append(f"{where()}: a joint without a name was called {name!r}")
            joints.append(_Joint(name, parent, line))
            pending = len(joints) - 1
        elif key.startswith(("END", "SITE")):
            _, position = _joint_name(text, position)
            if owner() < 0:
                raise ValueError(f"{where()}: an End Site outside every joint")
            pending = -1
        elif key == "OFFSET":
            stop = _STOP.search(text, position)
            end = stop.start() if stop else len(text)
            offset = _offset(text[position:end], where(owner()), notes)
            position = end
            if not stack:
                notes.append(f"{where()}: an OFFSET outside every joint was ignored")
            elif stack[-1] >= 0:
                joints[stack[-1]].offset = offset
            elif joints[owner()].tip is None:
                joints[owner()].tip = offset
            else:
                notes.append(f"{where(owner())}: a second End Site was ignored")
        else:
            stop = _STOP.search(text, position)
            end = stop.start() if stop else len(text)
            channels, declared = _channels(text[position:end], where(owner()), notes)
            position = end
            if not stack:
                notes.append(f"{where()}: CHANNELS outside every joint were ignored")
            elif stack[-1] < 0:
                if channels:
                    notes.append(f"{where(owner())}: channels of an End Site are read past")
                    joints[owner()].channels.extend("-" * len(channels))
            else:
                joint = joints[stack[-1]]
                if joint.channels:
                    notes.append(f"{where(stack[-1])}: a second CHANNELS line was added to the first")
                joint.channels.extend(channels)
                joint.declared = (joint.declared or 0) + declared
    if not joints:
        raise ValueError(f"{source}: no ROOT joint found; expected HIERARCHY, ROOT and a name")
    if pending is not None or stack:
        deepest = next(
            (i for i in [pending if pending is not None else -1, *reversed(stack)] if i >= 0), len(joints) - 1
        )
        notes.append(
            f"{source}, joint {joints[deepest].name}: the hierarchy ends with {len(stack)} closing braces missing"
        )
    for joint in joints:
        if joint.offset is None:
            notes.append(f"{source}, line {joint.line}, joint {joint.name}: no OFFSET, taken as 0 0 0")
            joint.offset = np.zeros(3)
    return joints


def _joint_name(text: str, position: int) -> tuple[str, int]:
    """The rest of the line, up to a brace; where that is empty, the next line."""
    for _ in range(2):
        found = _NAME.match(text, position)
        assert found is not None
        name = re.sub(r"(?:^|\s)(?://|#\s).*$", "", found.group()).strip()
        inline = re.search(r"\s(?:OFFSET|CHANNELS)\s+[-+.\d]", name, re.I)  # everything on one line, brace forgotten
        if inline:
            return name[: inline.start()].strip(), position + found.group().index(name) + inline.start()
        position = found.end()
        if (
            name
            or position >= len(text)
            or text[position] in "{}"
            or _WORD.match(text, position + 1 + _leading(text, position + 1))
        ):
            return name, position
        position += 1
    return "", position


def _leading(text: str, position: int) -> int:
    found = re.compile(r"\s*").match(text, position)
    return len(found.group()) if found else 0


def _offset(chunk: str, where: str, notes: list[str]) -> np.ndarray:
    words = re.sub(r"(?:#|//)[^\n]*", "", chunk)
    if "," in words and "." not in words and not re.search(r",\s", words.strip()):
        words = words.replace(",", ".")
    words = words.replace(",", " ").replace(";", " ")
    words = re.sub(r"(?<=[\d.])([-+])", r" \1", words)  # glued numbers; after an e the sign stays
    numbers = [parse_number(word) for word in words.split()]
    if len(numbers) < 3:
        raise ValueError(f"{where}: expected OFFSET with three numbers, got {' '.join(chunk.split())[:40]!r}")
    if len(numbers) > 3:
        notes.append(f"{where}: OFFSET has {len(numbers)} numbers, the first three were taken")
    offset = np.array([np.nan if n is None else n for n in numbers[:3]])
    if not np.all(np.abs(offset) < MAX_VALUE):
        if any(n is None for n in numbers[:3]):
            raise ValueError(f"{where}: expected OFFSET with three numbers, got {' '.join(chunk.split())[:40]!r}")
        notes.append(f"{where}: OFFSET {' '.join(chunk.split())[:40]!r} is not finite; those axes were taken as 0")
        offset = np.where(np.abs(offset) < MAX_VALUE, offset, 0.0)
    return offset


def _channels(chunk: str, where: str, notes: list[str]) -> tuple[list[str], int]:
    """Channels as two letters each, 'Xp' or 'Zr', '-' for one that is read past; and the declared number."""
    words = re.sub(r"(?:#|//)[^\n]*", "", chunk).replace(",", " ").split()
    declared = None
    if words and re.fullmatch(r"[-+]?\d+:?", words[0]):
        declared = int(words.pop(0).rstrip(":"))
    channels: list[str] = []
    for word in words:
        found = list(_CHANNEL.finditer(word))
        if not found:
            notes.append(f"{where}: channel {word[:30]!r} is unknown and is read past")
            channels.append("-")
        for match in found:
            kind = "r" if match.group(2).lower() in ("rot", "ang") else "p"
            channels.append(match.group(1).upper() + kind)
    if declared is None:
        if words:
            notes.append(f"{where}: CHANNELS without a number, {len(channels)} names were counted")
        declared = len(channels)
    if declared != len(channels):
        notes.append(f"{where}: CHANNELS says {declared} but names {len(channels)}")
    return channels, max(declared, 0)


def _unique_names(joints: list[_Joint], source: str, notes: list[str]) -> tuple[str, ...]:
    taken: set[str] = set()
    names = []
    for joint in joints:
        name, number = joint.name, 0
        while name in taken:
            number += 1
            name = f"{joint.name}.{number:03d}"
        if number:
            notes.append(
                f"{source}, line {joint.line}: the name {joint.name!r} is used twice, this one became {name!r}"
            )
        taken.add(name)
        names.append(name)
    return tuple(names)


# ---------------------------------------------------------------- motion


def _read_motion_header(data: bytes, start: int, source: str, notes: list[str]) -> tuple[int | None, float, int]:
    """Declared frames (None where absent), frames a second, and where the numbers begin."""
    frames: int | None = None
    seconds: float | None = None
    text = ""
    position = start
    motion = False
    if start >= len(data):
        notes.append(f"{source}: no MOTION block; only the rest pose was read")
        return 0, FALLBACK_FPS, len(data)
    while True:
        found = _MOTION_LINE.match(data, position)
        if not found:
            break
        position = found.end()
        if found.lastgroup == "motion":
            motion = True
            continue
        if found.lastgroup == "comment":
            continue
        value = re.compile(rb"[ \t]*[:=]?[ \t]*([^\s]*)[ \t]*(ms|msec|milliseconds|s|sec|seconds|fps)?(?=\s|$)").match(
            data, position
        )
        if not value:
            continue
        position = value.end()
        word = value.group(1).decode("latin-1").replace(",", ".")
        line = data.count(b"\n", 0, found.end()) + 1
        number = parse_number(word)
        if found.lastgroup == "count":
            if number is None or not 0 <= number < 1e12:
                notes.append(
                    f"{source}, line {line}: the number of frames {word[:20]!r} is no count; rows were counted instead"
                )
            else:
                frames = int(number)
        elif number is None or not np.isfinite(number):
            notes.append(f"{source}, line {line}: the frame time {word[:20]!r} is no number")
        elif found.lastgroup == "rate":
            seconds, text = (1 / number if number > 0 else 0.0), ""
        else:
            seconds, text = number, word
            if value.group(2) in (b"ms", b"msec", b"milliseconds"):
                seconds, text = number / 1000, f"{number / 1000:.{len(word.split('.')[-1]) + 3}f}"
    if not motion:
        notes.append(f"{source}: the word MOTION is missing before the frames")
    if frames is None:
        notes.append(f"{source}: the number of frames is missing; rows were counted instead")
    if seconds is None:
        notes.append(
            f"{source}: no frame time; {FALLBACK_FPS:g} frames a second were assumed, set the rate if you know better"
        )
        return frames, FALLBACK_FPS, position
    if seconds < 0:
        notes.append(f"{source}: the frame time {seconds:g} is negative; its sign was ignored")
        seconds = -seconds
    if seconds < 1e-5:
        notes.append(
            f"{source}: the frame time is {seconds:g}; "
            f"{FALLBACK_FPS:g} frames a second were assumed, set the rate if you know better"
        )
        return frames, FALLBACK_FPS, position
    if not 1 / 1000 <= seconds <= 0.2:
        notes.append(
            f"{source}: the frame time {seconds:g} s means {1 / seconds:g} frames a second, which is unusual; "
            "set the rate if it is wrong"
        )
    return frames, _snapped_rate(seconds, text), position


def _snapped_rate(seconds: float, text: str) -> float:
    """Frames a second; a whole number where the printed digits of the frame time allow it ('.0083333' is 120)."""
    rate = 1 / seconds
    whole = round(rate)
    digits = re.fullmatch(r"[-+]?\d*\.(\d+)", text)
    half_step = 0.5 * 10.0 ** -len(digits.group(1)) if digits else 0.0
    if whole >= 1 and abs(1 / whole - seconds) <= half_step * 1.1 + 1e-9 * seconds and abs(rate - whole) < 0.02 * rate:
        return float(whole)
    return rate


@dataclass(frozen=True)
class _Layout:
    """Which column of a row belongs to which joint and channel."""

    channels: tuple[tuple[str, ...], ...]
    starts: np.ndarray
    width: int


def _layout(joints: list[_Joint], declared: bool = False) -> _Layout:
    channels = []
    for joint in joints:
        mine = list(joint.channels)
        if declared and joint.declared is not None:
            mine = (mine + ["-"] * joint.declared)[: joint.declared] if joint.declared < 1000 else mine
        channels.append(tuple(mine))
    counts = [len(mine) for mine in channels]
    return _Layout(tuple(channels), np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(int), int(sum(counts)))


def _column_joint(joints: list[_Joint], layout: _Layout, column: int) -> str:
    return joints[int(np.searchsorted(layout.starts, column, side="right")) - 1].name


def _read_values(
    block: bytes, first_line: int, joints: list[_Joint], declared_frames: int | None, source: str, notes: list[str]
) -> tuple[np.ndarray, np.ndarray | None, _Layout]:
    """Motion text to values (F, W), the mask of values that are no numbers (or None), and the layout that fits."""
    layout, other = _layout(joints), _layout(joints, declared=True)
    if layout.width == 0:
        if block.strip():
            notes.append(f"{source}: no joint has a channel, so the motion block holds nothing that can be read")
        return np.zeros((0, 0)), None, layout
    values, ends = read_numbers(block)
    if values is None:
        block = _cleaned(block, first_line, layout.width, source, notes)
        values, ends = read_numbers(block)
        if values is None:
            values, ends = _slow_numbers(block, first_line, joints, layout, source, notes)
    if other.width not in (0, layout.width):
        counts = np.diff(ends, prepend=0)
        if np.count_nonzero(counts == other.width) > np.count_nonzero(counts == layout.width):
            notes.append(
                f"{source}: rows hold {other.width} values, as the CHANNELS numbers add up to; those were trusted"
            )
            layout = other
    rows = _rows(values, ends, layout, first_line, joints, declared_frames, source, notes)
    low, high = (rows.min(), rows.max()) if rows.size else (0.0, 0.0)
    if low > -MAX_VALUE and high < MAX_VALUE:
        return rows, None, layout
    bad = ~(np.abs(rows) < MAX_VALUE)
    if np.count_nonzero(bad) > 0.5 * bad.size:
        raise ValueError(
            f"{source}: {np.count_nonzero(bad)} of {bad.size} motion values are no finite numbers; "
            "expected most of them to be"
        )
    return np.where(bad, 0.0, rows), bad, layout


def _cleaned(block: bytes, first_line: int, width: int, source: str, notes: list[str]) -> bytes:
    """Motion text with comments, foreign numbers and separators turned into what ``float`` reads; each is noted."""

    def line_of(position: int) -> int:
        return first_line + block.count(b"\n", 0, position)

    second = re.search(rb"(?<![A-Za-z0-9_])(?:HIERARCHY|ROOT|MOTION)(?![A-Za-z0-9_])", block, re.I)
    if second:
        notes.append(
            f"{source}, line {line_of(second.start())}: a second {second.group().decode()} begins here; "
            "only the first take was read"
        )
        block = block[: second.start()]
    for pattern, replacement, what in (
        (
            rb"(?m)^[ \t]*(?:#(?!\w+!)|//|;)[^\n]*|(?<=[ \t])(?://|#[ \t])[^\n]*",
            b"",
            "comments among the frames were skipped",
        ),
        (
            rb"(?i)(?<!\S)[-+]?(?:\d\.#[A-Z]+\d*|nan\([^)\s]*\)|nan[A-Z]+|#[A-Z/]+[!?]?|null|none|n/a)(?!\S)",
            b"nan",
            "words like -nan(ind) stand for missing numbers",
        ),
        (rb"(?<=[\d.])[dD](?=[-+]?\d)", b"e", "Fortran exponents (1.0D+02) were read"),
        (b"\xe2\x88\x92", b"-", "Unicode minus signs were read"),
    ):
        found = re.search(pattern, block)
        if found:
            notes.append(f"{source}, line {line_of(found.start())}: {what}")
            block = re.sub(pattern, replacement, block)
    if b"," in block or b";" in block or b"|" in block:
        at = min(position for position in (block.find(mark) for mark in (b",", b";", b"|")) if position >= 0)
        if re.search(rb",[ \t]", block[:CHUNK]):
            block = re.sub(rb",(?=\s)", b" ", block)
        line = next((line for line in re.finditer(rb"[^\n]+", block) if line.group().strip()), None)
        sample = line.group() if line else b""
        if len(re.split(rb"[\s;|]+", sample.strip(b" \t\r\n;|"))) == width and b"," in block:
            if re.search(rb"\d,\d+\.\d|\d\.\d+,\d", block):
                raise ValueError(
                    f"{source}, line {line_of(at)}: numbers hold both a comma and a dot; "
                    "expected a decimal dot and no thousands marks, export again"
                )
            notes.append(f"{source}, line {line_of(at)}: decimal commas were read as decimal dots")
            block = block.replace(b",", b".").replace(b";", b" ").replace(b"|", b" ")
        else:
            notes.append(
                f"{source}, line {line_of(at)}: commas, semicolons or bars between numbers were read as separators"
            )
            block = block.translate(bytes.maketrans(b",;|", b"   "))
    glued = re.search(rb"(?<=[\d.])[-+](?=[\d.])", block)
    if glued:
        notes.append(
            f"{source}, line {line_of(glued.start())}: numbers glued together at their signs (1.5-2.3) were taken apart"
        )
        block = re.sub(rb"(?<=[\d.])([-+])(?=[\d.])", rb" \1", block)
    return block


def _slow_numbers(
    block: bytes, first_line: int, joints: list[_Joint], layout: _Layout, source: str, notes: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Word by word: what is no number becomes NaN, lines without any number are skipped."""
    values, ends = array("d"), array("q")
    odd = 0
    for number, found in enumerate(re.finditer(rb"[^\n]*\n|[^\n]+", block), first_line):
        begin, unreadable = len(values), []
        for column, word in enumerate(re.finditer(rb"\S+", found.group())):
            value = parse_number(word.group())
            if value is None:
                unreadable.append((column, word.group()))
            values.append(np.nan if value is None else value)
        if unreadable and len(unreadable) == len(values) - begin:
            del values[begin:]
            odd += 1
            if odd <= _MAX_NOTES:
                text = found.group().strip()[:40]
                notes.append(f"{source}, line {number}: {text.decode('latin-1')!r} is no row of numbers, skipped")
        elif unreadable:
            odd += 1
            if odd <= _MAX_NOTES:
                column, text = unreadable[0]
                joint = _column_joint(joints, layout, column) if column < layout.width else "beyond the last joint"
                notes.append(f"{source}, line {number}, joint {joint}: {text[:30].decode('latin-1')!r} is no number")
        ends.append(len(values))
    if odd > _MAX_NOTES:
        notes.append(f"{source}: {odd} lines of the motion block hold something that is no number")
    return np.array(values, dtype=np.float64), np.array(ends, dtype=np.int64)


def _rows(
    values: np.ndarray,
    ends: np.ndarray,
    layout: _Layout,
    first_line: int,
    joints: list[_Joint],
    declared_frames: int | None,
    source: str,
    notes: list[str],
) -> np.ndarray:
    """Values (N) cut into rows (F, W): a line a frame, or frames wrapped over lines; damaged rows come back as NaN."""
    width, total = layout.width, len(values)
    counts = np.diff(ends, prepend=0)
    used = np.flatnonzero(counts)
    lengths = counts[used]
    whole, rest = divmod(total, width)
    if total == 0 or (rest == 0 and np.all(lengths == width)):
        return values.reshape(-1, width)
    if rest and np.all(lengths[:-1] == width) and lengths[-1] < width:
        joint = _column_joint(joints, layout, int(lengths[-1]))
        notes.append(
            f"{source}, line {first_line + used[-1]}, joint {joint}: "
            f"the last frame ends after {rest} of {width} values and was dropped"
        )
        if whole == 0:
            raise ValueError(
                f"{source}, line {first_line + used[-1]}: expected {width} values a frame "
                f"for the channels of {len(joints)} joints, got {rest}"
            )
        return values[: whole * width].reshape(-1, width)
    boundaries = np.arange(1, whole + 1) * width
    if whole and lengths.min() < width and np.isin(boundaries, ends).all():
        notes.append(
            f"{source}, line {first_line + used[0]}: frames are wrapped over several lines; "
            "values were counted, not lines"
        )
        if rest:
            notes.append(
                f"{source}, line {first_line + used[-1]}: "
                f"the last frame ends after {rest} of {width} values and was dropped"
            )
        return values[: whole * width].reshape(-1, width)
    if rest == 0 and (len(used) == 1 or whole == declared_frames):
        notes.append(
            f"{source}, line {first_line + used[0]}: line breaks do not fall between frames; "
            "values were counted, not lines"
        )
        return values.reshape(-1, width)
    right = lengths == width
    if np.count_nonzero(right) * 2 < len(used):
        wrong = int(np.flatnonzero(~right)[0])
        raise ValueError(
            f"{source}, line {first_line + used[wrong]}: expected {width} values a frame "
            f"for the channels of {len(joints)} joints, got {lengths[wrong]}"
        )
    rows = np.full((len(used), width), np.nan)
    rows[right] = values[(ends[used[right]] - width)[:, None] + np.arange(width)]
    for wrong in np.flatnonzero(~right)[:_MAX_NOTES]:
        notes.append(
            f"{source}, line {first_line + used[wrong]}: expected {width} values, got {lengths[wrong]}; "
            "this frame is filled in from its neighbours"
        )
    if np.count_nonzero(~right) > _MAX_NOTES:
        notes.append(f"{source}: {np.count_nonzero(~right)} rows have the wrong number of values")
    if not right[-1]:
        rows = rows[: np.flatnonzero(right)[-1] + 1]
    return rows


def _compare_frames(declared: int | None, read_frames: int, source: str, notes: list[str]) -> None:
    if declared is not None and declared != read_frames:
        notes.append(
            f"{source}: the header says {declared} frames, the file holds {read_frames}; {read_frames} were read"
        )
    if read_frames == 0:
        notes.append(f"{source}: no frames; the rest pose was read, there is no motion to learn from")
    elif read_frames == 1:
        notes.append(f"{source}: a single frame; it is a pose, there is no motion to learn from")


# ---------------------------------------------------------------- values to Clip


def _assemble(
    name: str,
    source: str,
    names: tuple[str, ...],
    joints: list[_Joint],
    layout: _Layout,
    values: np.ndarray,
    bad: np.ndarray | None,
    notes: list[str],
) -> Clip:
    frames, count = len(values), len(joints)
    offsets = np.array([joint.offset for joint in joints], dtype=np.float64)
    parents = np.array([joint.parent for joint in joints])
    tips = {i: joint.tip for i, joint in enumerate(joints) if joint.tip is not None}
    rotations = np.zeros((frames, count, 4))
    rotations[..., 0] = 1
    groups: dict[str, list[int]] = {}
    for i, channels in enumerate(layout.channels):
        order = "".join(c[0] for c in channels if c.endswith("r"))
        if order:
            groups.setdefault(order, []).append(i)
    rows_at_once = max(1, CHUNK // (8 * max(layout.width, 1)))
    for order, members in groups.items():
        columns = np.array(
            [[layout.starts[i] + k for k, c in enumerate(layout.channels[i]) if c.endswith("r")] for i in members]
        ).T
        for begin in range(0, frames, rows_at_once):
            part = values[begin : begin + rows_at_once]
            rotations[begin : begin + rows_at_once, members] = _quaternions(part[:, columns], order)
    positions: dict[int, np.ndarray] = {}
    for i, channels in enumerate(layout.channels):
        wanted = {c[0]: int(layout.starts[i]) + k for k, c in enumerate(channels) if c.endswith("p")}
        if wanted:
            moved = np.broadcast_to(offsets[i], (frames, 3)).copy()
            for letter, column in wanted.items():
                moved[:, "XYZ".index(letter)] = values[:, column]
            positions[i] = moved
    repaired: tuple[int, ...] = ()
    if bad is not None:
        repaired = _bad_frames(bad, layout, joints, source, notes)
        for i, channels in enumerate(layout.channels):
            mine = bad[:, int(layout.starts[i]) : int(layout.starts[i]) + len(channels)]
            turned = np.any(mine[:, [k for k, c in enumerate(channels) if c.endswith("r")]], axis=1)
            moved = np.any(mine[:, [k for k, c in enumerate(channels) if c.endswith("p")]], axis=1)
            if turned.any():
                rotations[:, i] = fill_in(rotations[:, i], turned)
            if moved.all():
                positions.pop(i, None)
            elif moved.any():
                good = np.flatnonzero(~moved)
                known = positions[i][good]
                positions[i] = np.stack([np.interp(np.arange(frames), good, known[:, k]) for k in range(3)], axis=-1)
    root_pos = positions.pop(0, np.broadcast_to(offsets[0], (frames, 3)))
    size = float(np.abs(offsets).sum()) or 1.0
    translations = {
        i: moved for i, moved in positions.items() if frames and np.abs(moved - offsets[i]).max() > 2e-7 * size
    }
    stretches = [(float(np.ptp(moved, axis=0).max()), joints[i].name) for i, moved in translations.items()]
    if stretches and max(stretches)[0] > 2e-7 * size:
        most, joint = max(stretches)
        what = f"positions of {sum(most > 2e-7 * size for most, _ in stretches)} joints below the root move"
        notes.append(
            f"{source}: the {what}, {joint!r} most, by {most:.4g} units; "
            "they are kept in the clip, a rig with fixed bone lengths leaves them out"
        )
    elif stretches:
        notes.append(
            f"{source}: {len(stretches)} joints, {stretches[0][1]!r} first, have a constant position "
            "that differs from their OFFSET; the position was taken, as BVH defines it"
        )
    return Clip(
        name=name,
        names=names,
        parents=parents,
        offsets=offsets,
        tips=tips,
        rotations=rotations,
        root_pos=np.ascontiguousarray(root_pos),
        fps=FALLBACK_FPS,
        translations=translations,
        repaired=repaired,
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


def fill_in(quaternions: np.ndarray, bad: np.ndarray) -> np.ndarray:
    """One joint's quaternions (F, 4), those where ``bad`` (F) blended from frames around; none good: no rotation."""
    good = np.flatnonzero(~bad)
    if len(good) == len(bad):
        return quaternions
    if not len(good):
        return np.broadcast_to(np.array([1.0, 0, 0, 0]), quaternions.shape)
    known = continuous_quaternions(quaternions[good])
    blended = np.stack([np.interp(np.arange(len(bad)), good, known[:, k]) for k in range(4)], axis=-1)
    return blended / np.maximum(np.linalg.norm(blended, axis=-1, keepdims=True), 1e-12)


def _bad_frames(
    bad: np.ndarray, layout: _Layout, joints: list[_Joint], source: str, notes: list[str]
) -> tuple[int, ...]:
    """The frames in which ``bad`` (F, W) marks something; the first of them are noted with their joints."""
    frames = np.flatnonzero(bad.any(axis=1))
    for frame in frames[:_MAX_NOTES]:
        hit = np.unique(np.searchsorted(layout.starts, np.flatnonzero(bad[frame]), side="right") - 1)
        names = joints[hit[0]].name if len(hit) == 1 else f"{joints[hit[0]].name} and {len(hit) - 1} more"
        notes.append(
            f"{source}, frame {frame + 1}, joint {names}: no finite number; filled in from the neighbouring frames"
        )
    if len(frames) > _MAX_NOTES:
        notes.append(f"{source}: {len(frames)} frames hold values that are no finite numbers")
    return tuple(int(frame) for frame in frames)


# ---------------------------------------------------------------- writing


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
    return " ".join(f"{value:.6f}" for value in vector)


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
