# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of numbers in the text of a motion file: one line per frame, wrapped lines, and all kinds of separators.

The text is processed twice, once to count and once to read, in small pieces, so that only the resulting motion is kept in
memory and not its text and numbers as well.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..core.messages import short
from .text import CHUNK, MAX_PLACES, Notes, chunk_end, count_words, parse_number, parse_words, read_numbers

_SLOW_CHUNK = 1 << 13  # [bytes] of text cleaned or read word by word at once: each word is then an object
_COUNT_CHUNK = 1 << 14  # [bytes] of text whose lines are counted at once: they may all be empty
_AT_ONCE = 1 << 13  # values in one block

_COMMENT = re.compile(rb"(?m)^[ \t]*(?:#(?![\w/]+[!?]|N/A)|//|;)[^\n]*|(?<=[ \t])(?://|#[ \t])[^\n]*")
_COUNTER = re.compile(rb"(?m)^[ \t]*\d+[:.)]?[ \t]+(?=[-+.\d])")
_SECOND = re.compile(rb"(?<![A-Za-z0-9_])(?:HIERARCHY|ROOT|MOTION)(?![A-Za-z0-9_])", re.I)
_SEPARATOR = re.compile(rb"[,;|]")
_GLUED = re.compile(rb"(?<=[\d.])([-+])(?=[\d.])")
_CLEANUPS = (
    (_COMMENT, b"", "comments among the frames were skipped"),
    (
        re.compile(
            rb"(?i)(?<!\S)[-+]?(?:\d\.#[A-Z]+\d*|nan\([^)\s]*\)|nan[A-Z]+|#[A-Z0-9/]+[!?]?|null|none|n/a)(?!\S)"
        ),
        b"nan",
        "words such as -nan(ind) were read as missing numbers",
    ),
    (re.compile(rb"(?<=[\d.])[dD](?=[-+]?\d)"), b"e", "Fortran exponents (1.0D+02) were read"),
    (re.compile(b"\xe2\x88\x92"), b"-", "Unicode minus signs were read"),
    (re.compile(rb"[\[\]()]"), b" ", "brackets around numbers were removed"),
)


@dataclass(frozen=True)
class Cleanup:
    """Substitutions, applied in turn, that turn a text into plain numbers."""

    steps: tuple[tuple[re.Pattern[bytes], bytes], ...] = ()

    def clean(self, text: bytes) -> bytes:
        """The text with its numbers as ``float`` reads them; line feeds are kept."""
        for pattern, replacement in self.steps:
            text = pattern.sub(replacement, text)
        return text


@dataclass(frozen=True)
class NumberText:
    """The part of ``data`` that holds rows of numbers."""

    data: bytes
    begin: int
    stop: int
    cleanup: Cleanup | None = None
    """None if all words are assumed to be plain numbers; reading then raises ValueError for any other word."""

    @property
    def first_line(self) -> int:
        """Line in the file, from 1, where the text begins."""
        return self.data.count(b"\n", 0, self.begin) + 1

    def counted(
        self, notes: Notes | None = None, joint_of: Callable[[int], str] = str
    ) -> Iterator[tuple[int, np.ndarray]]:
        """For each piece, the number of words in it and the number of words before each of its line feeds."""
        if self.cleanup is not None:
            yield from ((len(values), feeds) for values, feeds in self._cleaned_numbers(notes, joint_of))
            return
        position = self.begin
        while position < self.stop:
            end = chunk_end(self.data, position, self.stop, _COUNT_CHUNK)
            yield count_words(self.data[position:end])
            position = end

    def numbers(self, feeds: bool = False) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """For each piece, the numbers (n) in it and, with ``feeds``, how many of them are before each line feed."""
        if self.cleanup is not None:
            yield from self._cleaned_numbers(None, str)
            return
        position = self.begin
        while position < self.stop:
            end = chunk_end(self.data, position, self.stop, _COUNT_CHUNK if feeds else CHUNK)
            text = self.data[position:end]
            values = read_numbers(text)
            if values is None:
                raise ValueError("not all words are numbers")
            yield values, count_words(text)[1] if feeds else np.zeros(0, int)
            position = end

    def _cleaned_numbers(
        self, notes: Notes | None, joint_of: Callable[[int], str]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for text, line, whole in self.cleaned():
            values = read_numbers(text)
            if values is None:
                yield _word_by_word(text, line, whole, notes, joint_of)
            else:
                yield values, count_words(text)[1]

    def cleaned(self) -> Iterator[tuple[bytes, int, bool]]:
        """Cleaned pieces of the text, the line on which each begins, and whether it begins at the start of that line."""
        assert self.cleanup is not None
        comments = any(pattern is _COMMENT for pattern, _ in self.cleanup.steps)
        position, line = self.begin, self.first_line
        while position < self.stop:
            end = chunk_end(self.data, position, self.stop, _SLOW_CHUNK)
            text = self.data[position:end]
            if comments and not text.endswith(b"\n") and _COMMENT.search(text, text.rfind(b"\n") + 1):
                found = self.data.find(b"\n", end, self.stop)  # the comment continues to the end of its line
                end = self.stop if found < 0 else found
            yield self.cleanup.clean(text), line, position == self.begin or self.data[position - 1] == 10
            line += text.count(b"\n")
            position = end


def _word_by_word(
    text: bytes, first_line: int, starts_line: bool, notes: Notes | None, joint_of: Callable[[int], str]
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers (n), NaN for other words, and how many are before each line feed; lines without numbers are skipped.

    ``starts_line`` says whether the text begins at the start of a line.
    """
    words = text.split()
    values, readable = parse_words(words)
    begins = np.concatenate([[0], count_words(text)[1]])  # first word of each line; the last line has no line feed
    lengths = np.diff(begins, append=len(words))
    before = np.concatenate([[0], np.cumsum(~readable)])[np.append(begins, len(words))]
    unreadable = np.diff(before)
    skipped = (unreadable == lengths) & (lengths > 0)
    skipped[0] &= starts_line
    skipped[-1] = False
    if notes is not None and len(words):
        lines = np.flatnonzero(unreadable)
        columns = np.flatnonzero(~readable)[before[lines]] - begins[lines]  # of the first unreadable word
        _note_words(text, lines, columns, skipped[lines], first_line, notes, joint_of)
    return values[np.repeat(~skipped, lengths)], np.cumsum(np.where(skipped, 0, lengths)[:-1])


def _note_words(
    text: bytes,
    lines: np.ndarray,
    columns: np.ndarray,
    skipped: np.ndarray,
    first_line: int,
    notes: Notes,
    joint_of: Callable[[int], str],
) -> None:
    """Note for each of some ``lines`` (L) of a text its unreadable word, or the whole line if it was ``skipped``; equal ones at once."""
    alike: dict[str, tuple[list[str], list[int]]] = {}
    rows = text.split(b"\n")
    for line, column, whole in zip(lines.tolist(), columns.tolist(), skipped.tolist(), strict=True):
        odd = rows[line].strip()[:60] if whole else rows[line].split(None, column + 1)[column][:40]
        what = (
            f"{short(odd.decode('latin-1'), 40)!r} is not a {'row of numbers; it was skipped' if whole else 'number'}"
        )
        places, count = alike.setdefault(what, ([], [0]))
        count[0] += 1
        if len(places) < MAX_PLACES:
            places.append(f"line {first_line + line}" + ("" if whole else f", joint {joint_of(column)}"))
    for what, (places, (times,)) in alike.items():
        notes.add(what, *places, times=times)


def text_with_cleanup(data: bytes, begin: int, width: int, source: str, notes: Notes) -> NumberText:
    """The text from ``begin`` on and the cleanup it needs, each step noted; a row has ``width`` values.

    Raises ValueError for numbers with both a comma and a dot.
    """

    def place(position: int) -> str:
        line = data.count(b"\n", 0, position) + 1
        return f"line {line}"

    stop = len(data)
    second = _SECOND.search(data, begin)
    if second:
        stop = second.start()
        notes.add(
            f"a second {second.group().decode().upper()} begins here; only the first take was read",
            place(second.start()),
        )
    steps = []
    for pattern, replacement, what in _CLEANUPS:
        found = pattern.search(data, begin, stop)
        if found:
            notes.add(what, place(found.start()))
            steps.append((pattern, replacement))
    if _numbered(NumberText(data, begin, stop, Cleanup(tuple(steps))), width):
        notes.add("the rows are numbered; the first value of each was ignored", place(begin))
        steps.append((_COUNTER, b""))
    mark = _SEPARATOR.search(data, begin, stop)
    so_far = NumberText(data, begin, stop, Cleanup(tuple(steps)))
    if mark and any(_SEPARATOR.search(text) for text, _, _ in so_far.cleaned()):
        steps += _separators(so_far, width, source, place(mark.start()), notes)
    glued = _GLUED.search(data, begin, stop)
    if glued:
        notes.add("numbers without a space between them (1.5-2.3) were split", place(glued.start()))
        steps.append((_GLUED, rb" \1"))
    return NumberText(data, begin, stop, Cleanup(tuple(steps)))


def _numbered(text: NumberText, width: int) -> bool:
    """Whether the ``width`` values of the first rows follow a counter."""
    piece = next((piece for piece, _, _ in text.cleaned()), b"")
    rows = [line.split() for line in piece.split(b"\n")[:4] if line.strip()][:3]
    if len(rows) < 2 or any(len(row) != width + 1 for row in rows) or not _COUNTER.match(piece.lstrip()):
        return False
    counts = [parse_number(row[0].rstrip(b":.)")) for row in rows]
    return all(b is not None and a is not None and b == a + 1 for a, b in pairwise(counts))


def _separators(
    text: NumberText, width: int, source: str, place: str, notes: Notes
) -> list[tuple[re.Pattern[bytes], bytes]]:
    """Steps that handle commas, semicolons and bars; the first row tells decimal commas from separators."""
    row = next((line for piece, _, _ in text.cleaned() for line in piece.split(b"\n") if line.strip()), b"")
    steps = [(re.compile(rb",(?=\s)"), b" ")] if re.search(rb",[ \t]", row) else []
    row = Cleanup(tuple(steps)).clean(row)
    words = re.split(rb"[\s;|]+", row.strip(b" \t\r\n;|"), maxsplit=width + 1)
    comma = re.compile(rb",(?=\S)" if steps else rb",").search(text.data, text.begin, text.stop)
    if comma and len(words) == width:
        if re.compile(rb"\d,\d+\.\d|\d\.\d+,\d").search(text.data, text.begin, text.stop):
            raise ValueError(
                f"{source}, {place}: numbers hold both a comma and a dot; "
                "expected a decimal dot and no thousands separators, export again"
            )
        notes.add("decimal commas were read as decimal dots", place)
        return [*steps, (re.compile(rb","), b"."), (re.compile(rb"[;|]"), b" ")]
    notes.add("commas, semicolons or bars between numbers were read as separators", place)
    return [(_SEPARATOR, b" ")]


# ---------------------------------------------------------------- lines to rows


@dataclass(frozen=True)
class Rows:
    """Rows of ``width`` numbers, read on demand."""

    text: NumberText
    width: int
    count: int
    right: np.ndarray | None = None
    """Mask over the non-empty lines: which of them are rows; None if values are counted instead of lines."""

    def blocks(self) -> Iterator[np.ndarray]:
        """The rows (n, width) in blocks; a line that is not a row is NaN."""
        most = max(1, _AT_ONCE // self.width) if self.width else 1
        done = 0
        for rows in self._by_value() if self.right is None else self._by_line(self.right, most):
            for at in range(0, len(rows), most):
                part = rows[at : at + min(most, self.count - done)]
                done += len(part)
                if len(part):
                    yield part
            if done >= self.count:
                return

    def _by_value(self) -> Iterator[np.ndarray]:
        rest = np.zeros(0)
        for values, _ in self.text.numbers():
            values = np.concatenate([rest, values]) if len(rest) else values
            whole = len(values) // self.width * self.width
            yield values[:whole].reshape(-1, self.width)
            rest = values[whole:]

    def _by_line(self, right: np.ndarray, most: int) -> Iterator[np.ndarray]:
        rest, line = np.zeros(0), 0
        for values, feeds in self.text.numbers(feeds=True):
            ends = feeds + len(rest)
            rest = np.concatenate([rest, values]) if len(rest) else values
            ends = ends[np.diff(ends, prepend=0) > 0]
            for at in range(0, len(ends), most):
                some = ends[at : at + most]
                yield self._rows(rest, some, right[line : line + len(some)])
                line += len(some)
            rest = rest[ends[-1] :] if len(ends) else rest
        if len(rest):
            yield self._rows(rest, np.array([len(rest)]), right[line : line + 1])

    def _rows(self, values: np.ndarray, ends: np.ndarray, right: np.ndarray) -> np.ndarray:
        rows = np.full((len(ends), self.width), np.nan)
        rows[right] = values[(ends[right] - self.width)[:, None] + np.arange(self.width)]
        return rows


def find_rows(
    text: NumberText,
    widths: Sequence[int],
    declared: int | None,
    joints: Sequence[str],
    joint_of: Callable[[int], str],
    source: str,
    notes: Notes,
) -> tuple[Rows, int]:
    """How a text is divided into rows, and which of ``widths`` they have: the first, unless more lines have the second.

    ``declared`` is the number of frames that the header claims; ``joint_of`` names the joint of a column. Everything
    unusual is noted. Raises ValueError if most lines have the wrong length.
    """
    lengths, total = _line_lengths(text, notes, joint_of)
    width = widths[0]
    if widths[1] not in (0, width) and np.count_nonzero(lengths == widths[1]) > np.count_nonzero(lengths == width):
        notes.add(f"rows have {widths[1]} values, as many as the CHANNELS numbers say; those were used")
        width = widths[1]
    which = int(width != widths[0])
    whole, rest = divmod(total, width)
    by_value = Rows(text, width, whole)

    def fault(used: int) -> ValueError:
        return ValueError(
            f"{source}, {_place(text, used)}: expected {width} values a frame for the channels of {len(joints)} joints, "
            f"got {lengths[used]}"
        )

    if total == 0 or (rest == 0 and np.all(lengths == width)):
        return by_value, which
    last = len(lengths) - 1
    cut_off = f"the last frame ends after {rest} of {width} values and was dropped"
    if rest and np.all(lengths[:-1] == width) and lengths[-1] < width:
        if whole == 0:
            raise fault(last)
        notes.add(cut_off, f"{_place(text, last)}, joint {joint_of(int(lengths[-1]))}")
        return by_value, which
    if whole and lengths.min() < width and _lines_end_with_frames(lengths, width, whole):
        notes.add("frames are wrapped over several lines; values were counted instead of lines", _place(text, 0))
        if rest:
            notes.add(cut_off, _place(text, last))
        return by_value, which
    if rest == 0 and (len(lengths) == 1 or whole == declared):
        notes.add("line breaks are not between frames; values were counted instead of lines", _place(text, 0))
        return by_value, which
    right = lengths == width
    wrong = np.flatnonzero(~right)
    if np.count_nonzero(right) * 2 < len(lengths):
        raise fault(int(wrong[0]))
    for used in wrong[:3]:
        notes.add(
            f"expected {width} values, got {lengths[used]}; this frame was interpolated from its neighbours",
            _place(text, int(used)),
        )
    if len(wrong) > 3:
        notes.add(f"{len(wrong)} rows have the wrong number of values")
    return Rows(text, width, int(np.flatnonzero(right)[-1]) + 1, right), which


def _line_lengths(text: NumberText, notes: Notes, joint_of: Callable[[int], str]) -> tuple[np.ndarray, int]:
    """Number of words on each non-empty line, and in total."""
    lengths = array("I")
    last = total = 0
    for words, feeds in text.counted(notes, joint_of):
        counts = np.diff(feeds + total, prepend=last)
        lengths.frombytes(counts[counts > 0].astype(np.uint32).tobytes())
        last = total + int(feeds[-1]) if len(feeds) else last
        total += words
    if total > last:
        lengths.append(total - last)
    return np.frombuffer(lengths, np.uint32) if len(lengths) else np.zeros(0, np.uint32), total


def _lines_end_with_frames(lengths: np.ndarray, width: int, whole: int) -> bool:
    """Whether every frame ends where a line ends."""
    found = at = 0
    for begin in range(0, len(lengths), _AT_ONCE):
        ends = at + np.cumsum(lengths[begin : begin + _AT_ONCE], dtype=np.int64)
        found += int(np.count_nonzero(ends % width == 0))
        at = int(ends[-1])
    return found == whole


def _place(text: NumberText, wanted: int) -> str:
    """The place of the ``wanted``-th non-empty line."""
    line, used, carried = text.first_line, 0, 0
    for words, feeds in text.counted():
        filled = np.diff(feeds, prepend=0)
        if len(filled):
            filled[0] += carried
        at = np.flatnonzero(filled > 0)
        if used + len(at) > wanted:
            return f"line {line + int(at[wanted - used])}"
        used += len(at)
        line += len(feeds)
        carried = words - int(feeds[-1]) if len(feeds) else carried + words
    return f"line {line}"
