# SPDX-License-Identifier: GPL-3.0-or-later
"""The header of a BVH file: the hierarchy of joints, and the number of frames and the frame time before the motion.

The hierarchy is read as a stream of words, so line breaks, indentation and braces may be anywhere; a joint's name is the
rest of its line.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from ..core.messages import counted, short
from .clip_limits import MAX_JOINTS, MAX_VALUE
from .text import Notes, decode, parse_number

_RATES = (24, 25, 30, 48, 50, 60, 72, 90, 100, 120, 240)  # [1/s] found where a frame time should be
_SMALLER_UNITS = {"milliseconds": 1e-3, "microseconds": 1e-6}
_MILLISECONDS = (4, 130)  # between frames: 250 to 7.5 a second
FALLBACK_FPS = 30.0  # [1/s] if the file has no usable frame time
MAX_CHANNELS = 64  # of one joint
MAX_SITES = 2 * MAX_JOINTS  # End Sites: a few programs write two at a joint
MAX_UNKNOWN = 1000  # pieces of the hierarchy that may be unreadable
MAX_NAME = 1000  # characters

_KEYWORD = re.compile(
    r"(HIERARCHY|ROOT|JOINT|END[ \t]*_?SITE|END[ \t]*EFFECTOR|END|SITE|OFFSET|CHANNELS?|MOTION|[{}])(?![A-Za-z0-9_])",
    re.I,
)
_STOP = re.compile(r"(?<![A-Za-z0-9_])(?:HIERARCHY|ROOT|JOINT|END|SITE|OFFSET|CHANNELS?|MOTION|FRAMES?)|[{}]", re.I)
_BLANK = re.compile(r"(?:\s+|//[^\n]*|#[^\n]*)++")
_SPACE = re.compile(r"\s*")
_COMMENT_OR_WORD = re.compile(r"(?:#|//)[^\n]*|([^\s#/][^\s#]*|/(?!/)[^\s#]*)")
_NAME = re.compile(r"[^\n{}]*")
_CHANNEL = re.compile(r"([XYZ])[_-]?(pos|rot|tra|ang)[a-z]*?(?=[XYZ]_?(?:pos|rot|tra|ang)|[^a-z]|$)", re.I)
_SHORT_CHANNEL = re.compile(r"(?:(pos|rot|tra|ang)[a-z]*[_-]?([XYZ])|([rt])([XYZ]))(?=[^a-z]|$)", re.I)
_COLON = re.compile(r"[ \t]*[:=](?=\s)")
_BRACKETS = dict.fromkeys(map(ord, "()[]"), " ")
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
_MOTION_VALUE = re.compile(rb"[ \t]*[:=]?[ \t]*([^\s]*)[ \t]*(ms|msec|milliseconds|s|sec|seconds|fps)?(?=\s|$)")


@dataclass(slots=True)
class BvhJoint:
    """A joint as the hierarchy lists it."""

    name: str
    parent: int
    line: int
    offset: np.ndarray | None = None
    channels: list[str] = field(default_factory=list)
    """Two letters each, 'Xp' for a position or 'Zr' for a rotation; '-' for a value that is ignored."""
    declared: int | None = None
    """Number of channels according to the CHANNELS line."""
    tip: np.ndarray | None = None
    """(3) OFFSET of the End Site."""


def split_header(data: bytes, source: str) -> tuple[int, str]:
    """Where the motion begins, and the text before it. Raises ValueError for files that are not BVH."""
    if re.search(rb"^\s*:(?:VERSION|NAME|UNITS|FULLY-SPECIFIED|BONEDATA)", data[:4096], re.I | re.M):
        raise ValueError(f"{source}: this is an ASF or AMC file, not BVH; rename it to end in .asf or .amc")
    if not re.search(rb"(?<![A-Z0-9_])(?:HIERARCHY|ROOT)(?![A-Z0-9_])", data[:4096], re.I):
        first = data[:40].decode("latin-1").strip().split("\n", 1)[0].strip()
        raise ValueError(f"{source}: not a BVH file; expected HIERARCHY and ROOT near the beginning, got {first!r}")
    for pattern in _HEADER_END:
        found = pattern.search(data)
        if found:
            start = found.start(1)
            return start, decode(data[:start]) if start else ""
    return len(data), decode(data)


# ---------------------------------------------------------------- hierarchy


def read_hierarchy(text: str, source: str, notes: Notes) -> list[BvhJoint]:
    """The joints in file order, parents before children; everything unusual is noted.

    Raises ValueError with file, line and joint where the hierarchy cannot be understood.
    """
    return _HierarchyReader(text, source, notes).read()


class _HierarchyReader:
    """The state of reading one hierarchy: the position in the text, the joints so far and the open braces."""

    def __init__(self, text: str, source: str, notes: Notes) -> None:
        self.text, self.source, self.notes = text, source, notes
        self.joints: list[BvhJoint] = []
        self.open: list[int] = []
        """Joint index for each open brace; -1 for an End Site."""
        self.owners: list[int] = [-1]
        """The innermost open joint outside all braces (-1) and after each open brace."""
        self.sites = 0
        self.pending: int | None = None
        """A joint or an End Site (-1) whose opening brace has not been read yet."""
        self.position, self.line, self._counted = 0, 1, 0
        self.unknown = 0

    def read(self) -> list[BvhJoint]:
        while (key := self._next_keyword()) and key != "MOTION":
            if key == "{":
                self._open_brace()
            elif key == "}":
                self._close_brace()
            elif key in ("ROOT", "JOINT"):
                self._joint(key)
            elif key.startswith(("END", "SITE")):
                self._end_site()
            elif key == "OFFSET":
                self._offset()
            elif key.startswith("CHANNEL"):
                self._channels()
        self._finish()
        return self.joints

    def _place(self, joint: int | None = None) -> str:
        at = f"line {self.line}"
        return at if joint is None or joint < 0 else f"{at}, joint {short(self.joints[joint].name)}"

    def _fault(self, what: str, joint: int | None = None) -> ValueError:
        return ValueError(f"{self.source}, {self._place(joint)}: {what}")

    def _owner(self) -> int:
        """The innermost open joint; -1 outside all of them."""
        return self.owners[-1]

    def _next_keyword(self) -> str:
        """The next keyword in capitals, empty at the end of the text; the position is then behind it and its colon."""
        while True:
            blank = _BLANK.match(self.text, self.position)
            if blank:
                self.position = blank.end()
            if self.position >= len(self.text):
                return ""
            self.line += self.text.count("\n", self._counted, self.position)
            self._counted = self.position
            word = _KEYWORD.match(self.text, self.position)
            if word:
                break
            self._skip_unknown()
        key = word.group(1).upper()
        self.position = word.end()
        colon = _COLON.match(self.text, self.position)
        if colon and key not in "{}":
            self.position = colon.end()
        if self.pending is not None and key != "{":
            if key in ("ROOT", "JOINT", "MOTION", "}", "HIERARCHY"):
                raise self._fault(f"expected {{ after the joint's name, got {key}", self.pending)
            self.notes.add("an opening brace { is missing and was assumed", self._place(self.pending))
            self._open_brace()
        return key

    def _skip_unknown(self) -> None:
        end = self.text.find("\n", self.position)
        end = len(self.text) if end < 0 else end
        stop = _STOP.search(self.text, self.position + 1, end)
        end = max(stop.start() if stop else end, self.position + 1)
        self.unknown += 1
        if self.unknown > MAX_UNKNOWN:
            raise self._fault("not a BVH hierarchy; too much of it is not recognised")
        unknown = self.text[self.position : min(end, self.position + 80)].strip()[:40]
        self.notes.add(f"{unknown!r} is not recognised and was skipped", self._place(self._owner()))
        self.position = end

    def _open_brace(self) -> None:
        if self.pending is None:
            self.notes.add("an opening brace { without a joint was ignored", self._place())
        else:
            self.open.append(self.pending)
            self.owners.append(self.pending if self.pending >= 0 else self.owners[-1])
            self.pending = None

    def _close_brace(self) -> None:
        if self.open:
            self.open.pop()
            self.owners.pop()
        else:
            self.notes.add("one closing brace too many was ignored", self._place())

    def _joint(self, key: str) -> None:
        name = self._name()
        parent = self._owner()
        if self.open and self.open[-1] < 0:
            raise self._fault(f"an End Site cannot have the child {name!r}; its closing brace is missing", parent)
        if key == "ROOT" and self.open:
            self.notes.add(f"ROOT {name!r} is inside another joint and was read as its child", self._place(parent))
        if key == "JOINT" and not self.open and self.joints:
            self.notes.add(f"JOINT {name!r} is outside every joint and was read as another root", self._place())
        if len(self.joints) >= MAX_JOINTS:
            raise self._fault(f"expected at most {MAX_JOINTS} joints, got more; the file is damaged")
        if not name:
            name = f"joint{len(self.joints)}"
            self.notes.add(f"a joint without a name was called {name!r}", self._place())
        self.joints.append(BvhJoint(name, parent, self.line))
        self.pending = len(self.joints) - 1

    def _end_site(self) -> None:
        self._name()
        if self._owner() < 0:
            raise self._fault("an End Site outside every joint")
        self.sites += 1
        if self.sites > MAX_SITES:
            raise self._fault(f"expected at most {MAX_SITES} End Sites, got more; the file is damaged")
        self.pending = -1

    def _offset(self) -> None:
        owner = self._owner()
        offset = _parse_offset(self._arguments(16), self._place(owner), self.source, self.notes)
        if not self.open:
            self.notes.add("an OFFSET outside every joint was ignored", self._place())
        elif self.open[-1] >= 0:
            self.joints[owner].offset = offset
        elif self.joints[owner].tip is None:
            self.joints[owner].tip = offset
        else:
            self.notes.add("a second End Site was ignored", self._place(owner))

    def _channels(self) -> None:
        owner = self._owner()
        channels, declared = _parse_channels(self._arguments(MAX_CHANNELS + 2), self._place(owner), self.notes)
        if not self.open:
            self.notes.add("CHANNELS outside every joint were ignored", self._place())
        elif self.open[-1] < 0:
            if channels:
                self.notes.add("channels of an End Site were ignored", self._place(owner))
                self.joints[owner].channels.extend("-" * len(channels))
        else:
            joint = self.joints[owner]
            if joint.channels:
                self.notes.add("a second CHANNELS line was added to the first", self._place(owner))
            joint.channels.extend(channels)
            joint.declared = (joint.declared or 0) + declared

    def _finish(self) -> None:
        if not self.joints:
            raise ValueError(f"{self.source}: no ROOT joint found; expected HIERARCHY, ROOT and a name")
        if self.pending is not None or self.open:
            unclosed = [-1 if self.pending is None else self.pending, *reversed(self.open)]
            deepest = next((joint for joint in unclosed if joint >= 0), len(self.joints) - 1)
            what = f"the hierarchy ends with {counted(len(self.open), 'closing brace')} missing"
            self.notes.add(what, f"joint {short(self.joints[deepest].name)}")
        without = [joint for joint in self.joints if joint.offset is None]
        if len(without) > max(200, 0.5 * len(self.joints)):
            counts = f"{len(without)} of {len(self.joints)}"
            raise ValueError(f"{self.source}: {counts} joints have no OFFSET; the file is damaged")
        for joint in without:
            self.notes.add("no OFFSET; 0 0 0 was used", f"line {joint.line}, joint {short(joint.name)}")
            joint.offset = np.zeros(3)

    def _arguments(self, count: int) -> list[str]:
        """Up to ``count`` words before the next keyword, without comments; the position is then at that keyword."""
        stop = _STOP.search(self.text, self.position)
        end = stop.start() if stop else len(self.text)
        found = (match.group(1) for match in _COMMENT_OR_WORD.finditer(self.text, self.position, end))
        self.position = end
        return [word[:200] for word in islice(filter(None, found), count)]

    def _name(self) -> str:
        """The rest of the line, up to a brace; if that is empty, the next line."""
        text = self.text
        for _ in range(2):
            found = _NAME.match(text, self.position)
            assert found is not None
            line = text[self.position : min(found.end(), self.position + MAX_NAME)]
            name = re.sub(r"(?:^|\s)(?://|#\s).*$", "", line).strip()
            same_line = re.search(r"\s(?:OFFSET|CHANNELS)\s+[-+.\d]", name, re.I)  # all on one line without a brace
            if same_line:
                self.position += line.index(name) + same_line.start()
                return name[: same_line.start()].strip()
            self.position = found.end()
            if name or self.position >= len(text) or text[self.position] in "{}":
                return name
            space = _SPACE.match(text, self.position + 1)
            if _KEYWORD.match(text, space.end() if space else self.position + 1):
                return name
            self.position += 1
        return ""


def _parse_offset(arguments: Sequence[str], place: str, source: str, notes: Notes) -> np.ndarray:
    shown = " ".join(arguments)
    words = shown.translate(_BRACKETS).strip()
    if "," in words and "." not in words and not re.search(r",\s", words):
        words = words.replace(",", ".")
    words = words.replace(",", " ").replace(";", " ")
    words = re.sub(r"(?<=[\d.])([-+])", r" \1", words)  # split numbers without a space between; a sign after an e stays
    numbers = [parse_number(word) for word in words.split()]
    if len(numbers) < 3 or any(n is None for n in numbers[:3]):
        raise ValueError(f"{source}, {place}: expected OFFSET with three numbers, got {short(shown, 40)!r}")
    if len(numbers) > 3:
        notes.add(f"OFFSET has {len(numbers)} values; the first three were used", place)
    offset = np.array(numbers[:3], dtype=np.float64)
    if not np.all(np.abs(offset) < MAX_VALUE):
        notes.add(f"OFFSET {short(shown, 40)!r} is not finite; 0 was used for those axes", place)
        offset = np.where(np.abs(offset) < MAX_VALUE, offset, 0.0)
    return offset


def _parse_channels(arguments: Sequence[str], place: str, notes: Notes) -> tuple[list[str], int]:
    """Channels as in BvhJoint, and their declared number."""
    words = [word for argument in arguments for word in argument.split(",") if word]
    if len(words) > MAX_CHANNELS + 1:
        notes.add(f"CHANNELS lists more than {MAX_CHANNELS}; the rest were ignored", place)
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
            notes.add(f"{word[:30]!r} after the channels was ignored", place)
            continue
        if not found:
            notes.add(f"channel {word[:30]!r} is unknown; its values were ignored", place)
            channels.append("-")
        for axis, kind in found:
            channels.append(sys.intern(axis.upper() + ("r" if kind.lower() in ("rot", "ang", "r") else "p")))
    if declared is None:
        if words:
            notes.add(f"CHANNELS without a number; its names were counted, {len(channels)} of them", place)
        declared = len(channels)
    if declared != len(channels):
        notes.add(f"CHANNELS says {declared} but lists {len(channels)}", place)
    return channels, max(declared, 0)


def unique_joint_names(joints: Sequence[BvhJoint], notes: Notes) -> tuple[str, ...]:
    """The names of the joints, with a number after those that were used before, which is noted."""
    taken: set[str] = set()
    repeats: dict[str, int] = {}
    names = []
    for joint in joints:
        name = joint.name
        while name in taken:
            repeats[joint.name] = repeats.get(joint.name, 0) + 1
            name = f"{joint.name}.{repeats[joint.name]:03d}"
        if name != joint.name:
            what = f"the name {short(joint.name)!r} is used twice; this joint was renamed {short(name)!r}"
            notes.add(what, f"line {joint.line}")
        taken.add(name)
        names.append(name)
    return tuple(names)


# ---------------------------------------------------------------- frames and frame time


@dataclass(frozen=True)
class MotionHeader:
    """What a file says before its rows of numbers."""

    frames: int | None
    """None if it does not say."""
    fps: float
    begin: int
    """Where the numbers begin in the file."""


def read_motion_header(data: bytes, start: int, notes: Notes) -> MotionHeader:
    """The number of frames and the rate in the text from ``start`` on; everything unusual is noted."""
    if start >= len(data):
        notes.add("no MOTION block; only the rest pose was read")
        return MotionHeader(0, FALLBACK_FPS, len(data))
    frames: int | None = None
    seconds: float | None = None
    digits = ""
    position = start
    has_keyword = False
    line, counted = 1, 0
    while found := _MOTION_LINE.match(data, position):
        position = found.end()
        line, counted = line + data.count(10, counted, position), position
        has_keyword |= found.lastgroup == "motion"
        value = None if found.lastgroup in ("motion", "comment") else _MOTION_VALUE.match(data, position)
        if not value:
            continue
        position = value.end()
        word = value.group(1).decode("latin-1").replace(",", ".")
        number = parse_number(word)
        place = f"line {line}"
        if found.lastgroup == "count":
            if number is None or not 0 <= number < 1e12:
                notes.add(f"the number of frames {word[:20]!r} is not a count; rows were counted instead", place)
            else:
                frames = int(number)
        elif number is None or not np.isfinite(number):
            notes.add(f"the frame time {word[:20]!r} is not a number", place)
        elif found.lastgroup == "rate":
            seconds, digits = (1 / number if number > 0 else 0.0), ""
        elif value.group(2) in (b"ms", b"msec", b"milliseconds"):
            seconds, digits = number / 1000, f"{number / 1000:.{len(word.split('.')[-1]) + 3}f}"
        else:
            seconds, digits = number, word
    if not has_keyword:
        notes.add("the keyword MOTION is missing before the frames")
    if frames is None:
        notes.add("the number of frames is missing; rows were counted instead")
    return MotionHeader(frames, _frame_rate(seconds, digits, notes), position)


def _frame_rate(seconds: float | None, digits: str, notes: Notes) -> float:
    """Frames per second from a frame time [s] and the digits it is printed with; doubts are noted."""
    assumed = f"{FALLBACK_FPS:g} frames per second were assumed; set the rate if that is wrong"
    if seconds is None:
        notes.add(f"no frame time; {assumed}")
        return FALLBACK_FPS
    if seconds < 0:
        notes.add(f"the frame time {seconds:g} is negative; its sign was ignored")
        seconds = -seconds
    if seconds < 1e-5:
        notes.add(f"the frame time is {seconds:g}; {assumed}")
        return FALLBACK_FPS
    if seconds in _RATES:
        notes.add(f"the frame time {seconds:g} s is no frame time but a rate; {seconds:g} frames per second were taken")
        return seconds
    for unit, size in _SMALLER_UNITS.items():
        if _MILLISECONDS[0] <= seconds * size * 1000 <= _MILLISECONDS[1]:
            rate = _whole_rate(seconds * size, "")
            rate = float(round(rate)) if abs(rate - round(rate)) < 0.02 * rate and digits else rate
            notes.add(
                f"the frame time {seconds:g} s would be {1 / seconds:.2g} frames per second; {unit} were taken, which means "
                f"{rate:.4g}; set the rate if that is wrong"
            )
            return rate
    if not 1 / 1000 <= seconds <= 0.2:
        notes.add(
            f"the frame time {seconds:g} s means {1 / seconds:g} frames per second, which is unusual; "
            "set the rate if it is wrong"
        )
    return _whole_rate(seconds, digits)


def _whole_rate(seconds: float, digits: str) -> float:
    """Frames per second, a whole number if the printed digits of the frame time allow one ('.0083333' is 120)."""
    rate = 1 / seconds
    whole = round(rate)
    found = re.fullmatch(r"[-+]?\d*\.(\d+)(?:[eEdD]([-+]?\d{1,2}))?", digits)
    half_step = 0.5 * 10.0 ** (int(found.group(2) or 0) - len(found.group(1))) if found else 0.0
    if whole >= 1 and abs(1 / whole - seconds) <= half_step * 1.1 + 1e-9 * seconds and abs(rate - whole) < 0.02 * rate:
        return float(whole)
    return rate
