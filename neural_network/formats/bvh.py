# SPDX-License-Identifier: GPL-3.0-or-later
"""BVH files to Clip and back: every dialect that can be understood is read, every doubt becomes a warning.

The hierarchy is read as a stream of words, so that line breaks, indents and braces may stand anywhere; a joint's name
is the rest of its line. The motion block is turned into numbers in one pass by NumPy and only looked at word by word
where that pass does not add up (text among the numbers, decimal commas, rows of the wrong length).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np

from ..core.files import whole_file
from ..core.messages import short
from ..core.rotations import matrix_from_quaternion
from ..motion.clip import Clip, guess_unit, guess_up_axis, helper_notes, without_rigid
from .rows import Rows, Text, careful, find_rows
from .text import Notes, decode, parse_number, plain_bytes

FALLBACK_FPS = 30.0  # [1/s] where the file names no usable frame time
MAX_JOINTS = 5_000  # more than five times the largest face rig; a damaged file must not fill the memory
MAX_CHANNELS = 64  # of one joint
MAX_VALUE = 1e9  # a motion value beyond this is damage, in any unit
MEMORY = 8  # times the file that a clip may take; beyond it joints that never move are folded away
_FREE = 1 << 18  # [bytes] that a clip may take in any case

_WORD = re.compile(
    r"(HIERARCHY|ROOT|JOINT|END[ \t]*_?SITE|END[ \t]*EFFECTOR|END|SITE|OFFSET|CHANNELS?|MOTION|[{}])(?![A-Za-z0-9_])",
    re.I,
)
_STOP = re.compile(r"(?<![A-Za-z0-9_])(?:HIERARCHY|ROOT|JOINT|END|SITE|OFFSET|CHANNELS?|MOTION|FRAMES?)|[{}]", re.I)
_BLANK = re.compile(r"(?:\s+|//[^\n]*|#[^\n]*)++")
_LONGEST_NAME = 1000
_COMMENT_OR_WORD = re.compile(r"(?:#|//)[^\n]*|([^\s#/][^\s#]*|/(?!/)[^\s#]*)")
_NAME = re.compile(r"[^\n{}]*")
_CHANNEL = re.compile(r"([XYZ])[_-]?(pos|rot|tra|ang)[a-z]*?(?=[XYZ]_?(?:pos|rot|tra|ang)|[^a-z]|$)", re.I)
_SHORT_CHANNEL = re.compile(r"(?:(pos|rot|tra|ang)[a-z]*[_-]?([XYZ])|([rt])([XYZ]))(?=[^a-z]|$)", re.I)
_COLON = re.compile(r"[ \t]*[:=](?=\s)")
_HEADER_END = (
    re.compile(rb"(?<![A-Za-z0-9_])(MOTION)(?:\s++|#[^\n]*\n|//[^\n]*\n)++FRAME", re.I),
    re.compile(rb"(?:^|[\r\n}])[ \t]*(FRAMES?)[ \t]*[:=]", re.I),
    re.compile(rb"(?:^|[\r\n}])[ \t]*(MOTION)(?![A-Za-z0-9_])", re.I),
    re.compile(rb"(?<=\n)([ \t]*)(?:[-+]?[\d.][-+.\deE]*[ \t]+){5}[-+.\d]"),  # rows of numbers without any heading
)
_MOTION_LINE = re.compile(
    rb"\s*(?:(?P<motion>MOTION)(?![A-Za-z0-9_])|(?P<comment>(?:#(?![\w/]+[!?]|N/A)|//)[^\n]*)"
    rb"|(?P<time>FRAME[ \t_]*TIME)|(?P<rate>FPS|FRAME[ \t_]*RATE)"
    rb"|(?P<count>(?:NUMBER[ \t]+OF[ \t]+)?FRAMES?(?:[ \t_]*COUNT)?))",
    re.I,
)


@dataclass(slots=True)
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
    up = up_axis.upper() if up_axis else None
    if up not in (None, "Y", "Z"):
        raise ValueError(f"up axis: expected Y or Z, got {up_axis!r}")
    notes = Notes(source)
    data = plain_bytes(data, source, notes)
    start, header = _split_header(data, source)
    joints = _read_hierarchy(header, source, notes)
    del header
    names = _unique_names(joints, notes)
    declared, found_fps, begin = _read_motion_header(data, start, notes)
    try:
        trial = notes.copy()
        clip = _motion(data, begin, joints, names, declared, source, trial, plain=True)
        notes = trial
    except ValueError:  # not all words are numbers, or so it seems
        clip = _motion(data, begin, joints, names, declared, source, notes, plain=False)
    clip = replace(clip, name=name, fps=found_fps if fps is None else fps)
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
    return replace(clip, warnings=notes.sentences())


def write(path: str | Path, clip: Clip) -> None:
    """Write a clip as BVH in its own axes and units, whole or not at all.

    Rotations are written as Zrotation Yrotation Xrotation, positions for roots and for joints in ``translations``.
    A leaf without a tip gets no End Site when it has no parent, else one as long as a quarter of its own offset.
    Raises ValueError where the clip has no joint or a name holds a line break or a brace.
    """
    if not clip.names:
        raise ValueError("a BVH needs at least one joint, got a clip without any")
    with whole_file(path) as out:
        for line in _bvh_lines(clip):
            out.write(f"{line}\n".encode())


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


def _read_hierarchy(text: str, source: str, notes: Notes) -> list[_Joint]:
    joints: list[_Joint] = []
    stack: list[int] = []  # joint indices; -1 for an End Site
    pending: int | None = None  # a joint or End Site (-1) whose brace has not come yet
    position, line, counted = 0, 1, 0
    skipped = 0

    def place(joint: int | None = None) -> str:
        at = f"line {line}"
        return at if joint is None or joint < 0 else f"{at}, joint {short(joints[joint].name)}"

    def where(joint: int | None = None) -> str:
        return f"{source}, {place(joint)}"

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
            if skipped <= 1000:
                unknown = text[position : min(max(end, position + 1), position + 80)].strip()[:40]
                notes.add(f"{unknown!r} is not understood and was skipped", place(owner()))
            else:
                raise ValueError(f"{where()}: not a BVH hierarchy; too much of it is not understood")
            position = max(end, position + 1)
            continue
        key = word.group(1).upper()
        position = word.end()
        colon = _COLON.match(text, position)
        if colon and key not in "{}":
            position = colon.end()
        if pending is not None and key != "{":
            if key in ("ROOT", "JOINT", "MOTION", "}", "HIERARCHY"):
                raise ValueError(f"{where(pending)}: expected {{ after the joint's name, got {key}")
            notes.add("the brace { is missing and was assumed", place(pending))
            stack.append(pending)
            pending = None
        if key == "HIERARCHY":
            continue
        if key == "MOTION":
            break
        if key == "{":
            if pending is None:
                notes.add("a brace { without a joint was ignored", place())
                continue
            stack.append(pending)
            pending = None
        elif key == "}":
            if stack:
                stack.pop()
            else:
                notes.add("a closing brace too many was ignored", place())
        elif key in ("ROOT", "JOINT"):
            name, position = _joint_name(text, position)
            parent = owner()
            if stack and stack[-1] < 0:
                raise ValueError(
                    f"{where(parent)}: an End Site cannot have the child {name!r}; its closing brace is missing"
                )
            if key == "ROOT" and stack:
                notes.add(f"ROOT {name!r} stands inside another joint and was read as its child", place(parent))
            if key == "JOINT" and not stack and joints:
                notes.add(f"JOINT {name!r} stands outside every joint and was read as a further root", place())
            if len(joints) >= MAX_JOINTS:
                raise ValueError(f"{where()}: expected at most {MAX_JOINTS} joints, got more; the file is damaged")
            if not name:
                name = f"joint{len(joints)}"
                notes.add(f"a joint without a name was called {name!r}", place())
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
            offset = _offset(text, position, end, place(owner()), source, notes)
            position = end
            if not stack:
                notes.add("an OFFSET outside every joint was ignored", place())
            elif stack[-1] >= 0:
                joints[stack[-1]].offset = offset
            elif joints[owner()].tip is None:
                joints[owner()].tip = offset
            else:
                notes.add("a second End Site was ignored", place(owner()))
        else:
            stop = _STOP.search(text, position)
            end = stop.start() if stop else len(text)
            channels, declared = _channels(text, position, end, place(owner()), notes)
            position = end
            if not stack:
                notes.add("CHANNELS outside every joint were ignored", place())
            elif stack[-1] < 0:
                if channels:
                    notes.add("channels of an End Site are read past", place(owner()))
                    joints[owner()].channels.extend("-" * len(channels))
            else:
                joint = joints[stack[-1]]
                if joint.channels:
                    notes.add("a second CHANNELS line was added to the first", place(stack[-1]))
                joint.channels.extend(channels)
                joint.declared = (joint.declared or 0) + declared
    if not joints:
        raise ValueError(f"{source}: no ROOT joint found; expected HIERARCHY, ROOT and a name")
    if pending is not None or stack:
        deepest = next(
            (i for i in [pending if pending is not None else -1, *reversed(stack)] if i >= 0), len(joints) - 1
        )
        notes.add(
            f"the hierarchy ends with {len(stack)} closing braces missing", f"joint {short(joints[deepest].name)}"
        )
    loose = [joint for joint in joints if joint.offset is None]
    if len(loose) > max(200, 0.5 * len(joints)):
        raise ValueError(f"{source}: {len(loose)} of {len(joints)} joints have no OFFSET; the file is damaged")
    for joint in loose:
        notes.add("no OFFSET, taken as 0 0 0", f"line {joint.line}, joint {short(joint.name)}")
        joint.offset = np.zeros(3)
    return joints


def _joint_name(text: str, position: int) -> tuple[str, int]:
    """The rest of the line, up to a brace; where that is empty, the next line."""
    for _ in range(2):
        found = _NAME.match(text, position)
        assert found is not None
        line = text[position : min(found.end(), position + _LONGEST_NAME)]
        name = re.sub(r"(?:^|\s)(?://|#\s).*$", "", line).strip()
        inline = re.search(r"\s(?:OFFSET|CHANNELS)\s+[-+.\d]", name, re.I)  # everything on one line, brace forgotten
        if inline:
            return name[: inline.start()].strip(), position + line.index(name) + inline.start()
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


def _words(text: str, begin: int, end: int, most: int) -> list[str]:
    """The first ``most`` words of a part of the text, comments left out."""
    found = (match.group(1) for match in _COMMENT_OR_WORD.finditer(text, begin, end))
    return [word[:200] for word in islice(filter(None, found), most)]


_BRACKETS = dict.fromkeys(map(ord, "()[]"), " ")


def _offset(text: str, begin: int, end: int, place: str, source: str, notes: Notes) -> np.ndarray:
    shown = " ".join(_words(text, begin, end, 16))
    words = shown.translate(_BRACKETS).strip()
    if "," in words and "." not in words and not re.search(r",\s", words):
        words = words.replace(",", ".")
    words = words.replace(",", " ").replace(";", " ")
    words = re.sub(r"(?<=[\d.])([-+])", r" \1", words)  # glued numbers; after an e the sign stays
    numbers = [parse_number(word) for word in words.split()]
    if len(numbers) < 3 or any(n is None for n in numbers[:3]):
        raise ValueError(f"{source}, {place}: expected OFFSET with three numbers, got {short(shown, 40)!r}")
    if len(numbers) > 3:
        notes.add(f"OFFSET has {len(numbers)} numbers, the first three were taken", place)
    offset = np.array(numbers[:3], dtype=np.float64)
    if not np.all(np.abs(offset) < MAX_VALUE):
        notes.add(f"OFFSET {short(shown, 40)!r} is not finite; those axes were taken as 0", place)
        offset = np.where(np.abs(offset) < MAX_VALUE, offset, 0.0)
    return offset


def _channels(text: str, begin: int, end: int, place: str, notes: Notes) -> tuple[list[str], int]:
    """Channels as two letters each, 'Xp' or 'Zr', '-' for one that is read past; and the declared number."""
    words = [word for word in _words(text, begin, end, MAX_CHANNELS + 2) for word in word.split(",") if word]
    if len(words) > MAX_CHANNELS + 1:
        notes.add(f"CHANNELS name more than {MAX_CHANNELS}; the first were taken", place)
        words = words[: MAX_CHANNELS + 1]
    declared = None
    if words and re.fullmatch(r"[-+]?\d+:?", words[0]):
        declared = int(words.pop(0).rstrip(":")[:9])
    channels: list[str] = []
    for word in words:
        found = [match.group(1, 2) for match in _CHANNEL.finditer(word)]
        if not found and (other := _SHORT_CHANNEL.fullmatch(word)):  # rotationX, RotX, rx
            found = [(other.group(2) or other.group(4), other.group(1) or other.group(3))]
        if not found and len(channels) == declared:
            notes.add(f"{word[:30]!r} behind the channels was read past", place)
            continue
        if not found:
            notes.add(f"channel {word[:30]!r} is unknown and is read past", place)
            channels.append("-")
        for axis, kind in found:
            channels.append(sys.intern(axis.upper() + ("r" if kind.lower() in ("rot", "ang", "r") else "p")))
    if declared is None:
        if words:
            notes.add(f"CHANNELS without a number, {len(channels)} names were counted", place)
        declared = len(channels)
    if declared != len(channels):
        notes.add(f"CHANNELS says {declared} but names {len(channels)}", place)
    return channels, max(declared, 0)


def _unique_names(joints: list[_Joint], notes: Notes) -> tuple[str, ...]:
    taken: set[str] = set()
    often: dict[str, int] = {}
    names = []
    for joint in joints:
        name = joint.name
        while name in taken:
            often[joint.name] = often.get(joint.name, 0) + 1
            name = f"{joint.name}.{often[joint.name]:03d}"
        if name != joint.name:
            what = f"the name {short(joint.name)!r} is used twice, this one became {short(name)!r}"
            notes.add(what, f"line {joint.line}")
        taken.add(name)
        names.append(name)
    return tuple(names)


# ---------------------------------------------------------------- motion


def _read_motion_header(data: bytes, start: int, notes: Notes) -> tuple[int | None, float, int]:
    """Declared frames (None where absent), frames a second, and where the numbers begin."""
    frames: int | None = None
    seconds: float | None = None
    text = ""
    position = start
    motion = False
    if start >= len(data):
        notes.add("no MOTION block; only the rest pose was read")
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
                notes.add(f"the number of frames {word[:20]!r} is no count; rows were counted instead", f"line {line}")
            else:
                frames = int(number)
        elif number is None or not np.isfinite(number):
            notes.add(f"the frame time {word[:20]!r} is no number", f"line {line}")
        elif found.lastgroup == "rate":
            seconds, text = (1 / number if number > 0 else 0.0), ""
        else:
            seconds, text = number, word
            if value.group(2) in (b"ms", b"msec", b"milliseconds"):
                seconds, text = number / 1000, f"{number / 1000:.{len(word.split('.')[-1]) + 3}f}"
    if not motion:
        notes.add("the word MOTION is missing before the frames")
    if frames is None:
        notes.add("the number of frames is missing; rows were counted instead")
    if seconds is None:
        notes.add(f"no frame time; {FALLBACK_FPS:g} frames a second were assumed, set the rate if you know better")
        return frames, FALLBACK_FPS, position
    if seconds < 0:
        notes.add(f"the frame time {seconds:g} is negative; its sign was ignored")
        seconds = -seconds
    if seconds < 1e-5:
        notes.add(
            f"the frame time is {seconds:g}; "
            f"{FALLBACK_FPS:g} frames a second were assumed, set the rate if you know better"
        )
        return frames, FALLBACK_FPS, position
    if not 1 / 1000 <= seconds <= 0.2:
        notes.add(
            f"the frame time {seconds:g} s means {1 / seconds:g} frames a second, which is unusual; "
            "set the rate if it is wrong"
        )
    return frames, _snapped_rate(seconds, text), position


def _snapped_rate(seconds: float, text: str) -> float:
    """Frames a second; a whole number where the printed digits of the frame time allow it ('.0083333' is 120)."""
    rate = 1 / seconds
    whole = round(rate)
    digits = re.fullmatch(r"[-+]?\d*\.(\d+)(?:[eEdD]([-+]?\d{1,2}))?", text)
    half_step = 0.5 * 10.0 ** (int(digits.group(2) or 0) - len(digits.group(1))) if digits else 0.0
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
    channels: list[tuple[str, ...]] = []
    same: dict[tuple[str, ...], tuple[str, ...]] = {}
    for joint in joints:
        mine = list(joint.channels)
        if declared and joint.declared is not None:
            mine = (mine + ["-"] * joint.declared)[: joint.declared] if joint.declared <= MAX_CHANNELS else mine
        channels.append(same.setdefault(tuple(mine), tuple(mine)))
    counts = [len(mine) for mine in channels]
    return _Layout(tuple(channels), np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(int), int(sum(counts)))


def _column_joint(joints: list[_Joint], layout: _Layout, column: int) -> str:
    return joints[int(np.searchsorted(layout.starts, column, side="right")) - 1].name


def _motion(
    data: bytes,
    begin: int,
    joints: list[_Joint],
    names: tuple[str, ...],
    declared: int | None,
    source: str,
    notes: Notes,
    plain: bool,
) -> Clip:
    """The motion block as a clip without its name, rate, axes and unit.

    ``plain`` takes all words for plain numbers and raises ValueError where one is none; otherwise every oddity is seen to.
    """
    layout, other = _layout(joints), _layout(joints, declared=True)
    if layout.width == 0:
        if data[begin:].strip():
            notes.add("no joint has a channel, so the motion block holds nothing that can be read")
        rows = Rows(Text(data, len(data), len(data)), 0, 0)
    else:

        def joint_of(column: int) -> str:
            return _column_joint(joints, layout, column) if column < layout.width else "beyond the last joint"

        text = Text(data, begin, len(data)) if plain else careful(data, begin, layout.width, source, notes)
        rows, which = find_rows(text, (layout.width, other.width), declared, names, joint_of, source, notes)
        layout = (layout, other)[which]
    _compare_frames(declared, rows.count, notes)
    return _assemble(source, _body(joints, names, layout, rows.count, len(data), source, notes), rows, notes)


def _compare_frames(declared: int | None, read_frames: int, notes: Notes) -> None:
    if declared is not None and declared != read_frames:
        notes.add(f"the header says {declared} frames, the file holds {read_frames}; {read_frames} were read")
    if read_frames == 0:
        notes.add("no frames; the rest pose was read, there is no motion to learn from")
    elif read_frames == 1:
        notes.add("a single frame; it is a pose, there is no motion to learn from")


# ---------------------------------------------------------------- values to Clip


@dataclass(frozen=True)
class _Body:
    """The joints that a clip will have, and where their values stand in a row."""

    names: tuple[str, ...]
    parents: np.ndarray
    offsets: np.ndarray
    tips: dict[int, np.ndarray]
    channels: tuple[tuple[str, ...], ...]
    starts: np.ndarray

    def columns(self, joint: int, kind: str) -> dict[str, int]:
        """Axis -> column of a joint's channels of a kind, 'r' or 'p', in the file's order."""
        return {c[0]: int(self.starts[joint]) + k for k, c in enumerate(self.channels[joint]) if c[1:] == kind}


def room_for(frames: int, size: int, moving: int = 0) -> int:
    """How many joints a clip may have that was read from ``size`` bytes, if ``moving`` of them have positions too."""
    return (max(MEMORY * size, _FREE) - 24 * frames * moving) // (32 * max(frames, 1))


def _body(
    joints: list[_Joint], names: tuple[str, ...], layout: _Layout, frames: int, size: int, source: str, notes: Notes
) -> _Body:
    """The joints of the clip: all of them, unless most never move and would take many times the file."""
    parents = np.array([joint.parent for joint in joints])
    offsets = np.array([joint.offset for joint in joints], dtype=np.float64)
    tips = {i: joint.tip for i, joint in enumerate(joints) if joint.tip is not None}
    moving = sum(any(c[1:] == "p" for c in channels) for channels in layout.channels)
    room = room_for(frames, size, moving)
    kept = np.arange(len(joints))
    if len(joints) > room:
        rigid = np.array([not any(c != "-" for c in channels) for channels in layout.channels])
        kept, parents, offsets, tips = without_rigid(parents, offsets, tips, rigid, int(room))
        if len(kept) < len(joints):
            notes.add(
                f"{len(joints) - len(kept)} of {len(joints)} joints have no channels and were folded into the joints "
                "around them: with all of them the clip would take many times the file"
            )
    if len(kept) > room and frames:
        raise ValueError(
            f"{source}: {frames} frames of {len(kept)} joints would take many times the file; "
            "expected joints that have three channels each, or most of them none"
        )
    return _Body(
        tuple(names[i] for i in kept),
        parents,
        offsets,
        tips,
        tuple(layout.channels[i] for i in kept),
        layout.starts[kept],
    )


def _assemble(source: str, body: _Body, rows: Rows, notes: Notes) -> Clip:
    frames, count = rows.count, len(body.names)
    rotations = np.empty((frames, count, 4))
    groups: dict[str, list[int]] = {}
    for i, channels in enumerate(body.channels):
        groups.setdefault("".join(c[0] for c in channels if c[1:] == "r"), []).append(i)
    rotations[:, groups.pop("", [])] = (1, 0, 0, 0)
    turning = [
        (order, members, np.array([_turn_columns(body, i) for i in members]).T) for order, members in groups.items()
    ]
    moving = {i: axes for i in range(count) if (axes := body.columns(i, "p"))}
    positions = {i: np.empty((frames, 3)) for i in moving}
    marks: tuple[np.ndarray, np.ndarray] | None = None
    missing = at = 0
    for block in rows.blocks():
        here = slice(at, at + len(block))
        if not (block.min() > -MAX_VALUE and block.max() < MAX_VALUE):
            bad = ~(np.abs(block) < MAX_VALUE)
            if marks is None:
                marks = np.zeros((frames, count), bool), np.zeros((frames, count), bool)
            for i in range(count):
                marks[0][here, i] = bad[:, _turn_columns(body, i)].any(axis=1)
                marks[1][here, i] = bad[:, list(body.columns(i, "p").values())].any(axis=1)
            missing += int(np.count_nonzero(bad))
            block = np.where(bad, 0.0, block)
        for order, members, columns in turning:
            rotations[here, members] = _quaternions(block[:, columns], order)
        for i, axes in moving.items():
            positions[i][here] = body.offsets[i]
            for letter, column in axes.items():
                positions[i][here, "XYZ".index(letter)] = block[:, column]
        at += len(block)
    if missing > 0.5 * frames * rows.width:
        raise ValueError(
            f"{source}: {missing} of {frames * rows.width} motion values are no finite numbers; "
            "expected most of them to be"
        )
    repaired: tuple[int, ...] = ()
    if marks is not None:
        turned, moved = marks
        for i in np.flatnonzero(turned.all(axis=0)).tolist():
            notes.add("no finite number in any frame; it was left at rest", f"joint {short(body.names[i])}")
            rotations[:, i] = (1, 0, 0, 0)
            turned[:, i] = False
        for i in np.flatnonzero(moved.all(axis=0)).tolist():
            notes.add("no finite position in any frame; its OFFSET was taken", f"joint {short(body.names[i])}")
            positions.pop(i)
            moved[:, i] = False
        repaired = _bad_frames(turned, moved, body.names, notes)
        for i in np.flatnonzero(turned.any(axis=0)).tolist():
            rotations[:, i] = fill_in(rotations[:, i], turned[:, i])
        for i in np.flatnonzero(moved.any(axis=0)).tolist():
            good = np.flatnonzero(~moved[:, i])
            for k in range(3):
                positions[i][:, k] = np.interp(np.arange(frames), good, positions[i][good, k])
    root_pos = positions.pop(0) if 0 in positions else np.tile(body.offsets[0], (frames, 1))
    return Clip(
        name="",
        names=body.names,
        parents=body.parents,
        offsets=body.offsets,
        tips=body.tips,
        rotations=rotations,
        root_pos=root_pos,
        fps=FALLBACK_FPS,
        translations=_translations(body, positions, notes) if frames else {},
        repaired=repaired,
    )


def _turn_columns(body: _Body, joint: int) -> list[int]:
    """Columns of a joint's rotations in the file's order; an axis may come twice."""
    return [int(body.starts[joint]) + k for k, c in enumerate(body.channels[joint]) if c[1:] == "r"]


def _translations(body: _Body, positions: dict[int, np.ndarray], notes: Notes) -> dict[int, np.ndarray]:
    """The positions (F, 3) of joints that are not their OFFSET throughout; what they do is noted."""
    least = 2e-7 * (float(np.abs(body.offsets).sum()) or 1.0)
    kept = {}
    stretches = []
    for i, moved in positions.items():
        low, high = moved.min(axis=0), moved.max(axis=0)
        if max(np.abs(low - body.offsets[i]).max(), np.abs(high - body.offsets[i]).max()) > least:
            kept[i] = moved
            stretches.append((float((high - low).max()), body.names[i]))
    if stretches and max(stretches)[0] > least:
        most, joint = max(stretches)
        notes.add(
            f"the positions of {sum(most > least for most, _ in stretches)} joints below the root move, "
            f"{short(joint)!r} most, by {most:.4g} units; "
            "they are kept in the clip, a rig with fixed bone lengths leaves them out"
        )
    elif stretches:
        notes.add(
            f"{len(stretches)} joints, {short(stretches[0][1])!r} first, have a constant position "
            "that differs from their OFFSET; the position was taken, as BVH defines it"
        )
    return kept


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
    good, wrong = np.flatnonzero(~bad), np.flatnonzero(bad)
    if not len(good):
        return np.broadcast_to(np.array([1.0, 0, 0, 0]), quaternions.shape)
    filled = np.array(quaternions)
    after = np.searchsorted(good, wrong)
    before, after = good[np.maximum(after - 1, 0)], good[np.minimum(after, len(good) - 1)]
    share = np.clip((wrong - before) / np.maximum(after - before, 1), 0, 1)[:, None]
    a, b = quaternions[before], quaternions[after]
    blended = (1 - share) * a + share * np.where(np.sum(a * b, axis=1, keepdims=True) < 0, -b, b)
    filled[wrong] = blended / np.maximum(np.linalg.norm(blended, axis=1, keepdims=True), 1e-12)
    return filled


def _bad_frames(turned: np.ndarray, moved: np.ndarray, names: tuple[str, ...], notes: Notes) -> tuple[int, ...]:
    """The frames in which ``turned`` or ``moved`` (F, J) marks a joint; they are noted with their joints."""
    frames = np.flatnonzero(turned.any(axis=1) | moved.any(axis=1)).tolist()
    for frame in frames:
        hit = np.flatnonzero(turned[frame] | moved[frame])
        more = f" and {len(hit) - 1} more" if len(hit) > 1 else ""
        notes.add(
            "no finite number; filled in from the neighbouring frames",
            f"frame {frame + 1}, joint {short(names[hit[0]])}{more}",
        )
    return tuple(frames)


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
