# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of motion files: encodings, warnings, and fast reading of numbers."""

from __future__ import annotations

import codecs
import re
import warnings

import numpy as np

from ..core.messages import counted, short

CHUNK = 1 << 16  # [bytes] of text processed at once
_WORDS = 1 << 13  # words turned into numbers at once
_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eEdD][-+]?\d+)?"
_NUMBER_OR_NAN = re.compile(rf"{_NUMBER}|[-+]?(?i:nan|inf|infinity)".encode())
_LONGEST = 24  # characters of a number that the fast parser reads
_POWERS = 10.0 ** np.arange(_LONGEST)
_BLANKS = re.compile(rb"[\t-\r ]")
_SPACE = np.zeros(256, bool)
_SPACE[[9, 10, 11, 12, 13, 32]] = True

MAX_PLACES = 4
"""Places listed for one warning."""
_MAX_ALIKE = 12  # warnings that differ only in names and numbers
_NAMES_AND_NUMBERS = re.compile(r"'[^']*'|\"[^\"]*\"|[-+\d.e]*\d")

THROUGH_BLENDER = "import it in Blender (File > Import) and press Extract Data, or give it to batch_extract.py"
"""What to do with files that only Blender reads."""
_OTHER_FORMATS = (
    (b"Kaydara FBX", f"an FBX file: {THROUGH_BLENDER}"),
    (b"; FBX", f"an FBX file: {THROUGH_BLENDER}"),
    (b"glTF", f"a GLB file: {THROUGH_BLENDER}"),
    (b"BLENDER", "a .blend file: open it in Blender and press Extract Data, or give it to batch_extract.py"),
    (b"PK\x03\x04", "a zip archive: unpack it first"),
    (b"\x1f\x8b", "a gzip archive: unpack it first"),
    (b"7z\xbc\xaf", "a 7z archive: unpack it first"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself: fetch the file first"),
    (b"<!DOCTYPE", "a web page, not a motion file: download the file itself"),
    (b"<html", "a web page, not a motion file: download the file itself"),
)


class Notes:
    """Warnings about one file. Equal ones are merged and counted, and only the first of many similar ones are kept.

    So this stays small, however damaged a file is.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._found: dict[str, tuple[list[str], list[int]]] = {}
        self._kinds: dict[str, int] = {}

    def add(self, what: str, *places: str, times: int = 1) -> None:
        """Add a warning that holds ``times`` times; ``places`` are the first of them in the file: "line 5, joint Hips".

        No more than ``MAX_PLACES`` of them are kept.
        """
        what = short(what, 400)
        if what not in self._found:
            kind = _NAMES_AND_NUMBERS.sub("", what)
            before = self._kinds.get(kind, 0)
            if before >= _MAX_ALIKE:
                self._kinds[kind] = before + times
                return
            self._kinds[kind] = before + 1
            self._found[what] = ([], [0])
        kept, count = self._found[what]
        count[0] += times
        kept += [short(place, 150) for place in places[: MAX_PLACES - len(kept)] if place]

    def copy(self) -> Notes:
        """An independent copy, for an attempt that may be discarded."""
        other = Notes(self.source)
        other._found = {what: (list(places), list(count)) for what, (places, count) in self._found.items()}
        other._kinds = dict(self._kinds)
        return other

    def sentences(self) -> tuple[str, ...]:
        """All warnings, in the order in which they first occurred."""
        out = []
        for what, (places, (count,)) in self._found.items():
            where = f"{self.source}, {'; '.join(places)}" if places else self.source
            out.append(f"{where}: {what}" + (f" ({count} times)" if count > max(len(places), 1) else ""))
        left = sum(count - _MAX_ALIKE for count in self._kinds.values() if count > _MAX_ALIKE)
        return (*out, f"{self.source}: {counted(left, 'more warning')} like these") if left else tuple(out)


def normalized_bytes(data: bytes, source: str, notes: Notes, expected: str = "a BVH file with HIERARCHY") -> bytes:
    """The bytes of a text file in an ASCII-compatible encoding with line feeds.

    Converts UTF-16, UTF-32 and lone carriage returns, and removes byte-order marks and a Ctrl-Z at the end. Names keep
    their encoding (see ``decode``). Raises ValueError for an empty file, binary data and other well-known file types.
    """
    if not data.strip(b"\x00\r\n\t \x1a"):
        raise ValueError(f"{source}: the file is empty; expected {expected}")
    encoding = ""
    for mark, wide in (
        (codecs.BOM_UTF32_LE, "utf-32"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if data.startswith(mark) and not encoding:
            encoding = wide
    if not encoding and b"\x00" in data[:64] and len(data) >= 4:
        if data[1:20:2].count(0) >= 8:
            encoding = "utf-16-le"
        elif data[0:20:2].count(0) >= 8:
            encoding = "utf-16-be"
    if encoding:
        data = data.decode(encoding, "replace").encode("utf-8")
    while data.startswith(codecs.BOM_UTF8):
        data = data[len(codecs.BOM_UTF8) :]
    for magic, what in _OTHER_FORMATS:
        if data[:64].lstrip().startswith(magic):
            raise ValueError(f"{source}: this is {what}")
    if data.endswith(b"\x00"):
        whole, data = len(data), data.rstrip(b"\x00")
        notes.add(f"{whole - len(data)} zero bytes at the end were removed")
    if b"\x00" in data:
        if data.count(b"\x00") > 0.01 * len(data):
            raise ValueError(f"{source}: binary data; expected {expected}")
        notes.add(f"{data.count(0)} zero bytes were read as spaces")
        data = data.replace(b"\x00", b" ")
    if b"\x1a" in data[-16:]:
        data = data.rstrip(b"\x1a\r\n\t ") + b"\n"
    if b"\r" in data and b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    if b"\xc2\xa0" in data and _is_utf8(data[:CHUNK]):
        notes.add("no-break spaces were read as spaces")
        data = data.replace(b"\xc2\xa0", b" ")
    return data


def _is_utf8(data: bytes) -> bool:
    try:
        data.rsplit(b"\n", 1)[0].decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def decode(header: bytes) -> str:
    """Decode text with names: UTF-8, else Shift-JIS or GB18030 if it looks like one, else Latin-1 (which always works).

    A single high byte among ASCII letters, as in "H\xfcfte", is Latin-1. East Asian text has pairs of high bytes, or
    bytes that are control codes in Latin-1; Shift-JIS names have no half-width letters.
    """
    try:
        return header.decode("utf-8")
    except UnicodeDecodeError:
        pass
    if re.search(rb"[\x80-\x9f]|[\xa0-\xff]{2}", header):
        for encoding in ("cp932", "gb18030"):
            try:
                text = header.decode(encoding)
            except UnicodeDecodeError:
                continue
            if not re.search("[\uff61-\uff9f\ue000-\uf8ff]", text):
                return text
    return header.decode("latin-1")


def parse_number(word: str | bytes) -> float | None:
    """A word as a float, including Fortran's D exponents; None if it is not a number."""
    try:
        value = float(word)
    except ValueError:
        pass
    else:
        if (b"_" if isinstance(word, bytes) else "_") not in word:  # type: ignore[operator]
            return value
    text = word if isinstance(word, str) else word.decode("latin-1")
    if re.fullmatch(_NUMBER, text):
        return float(re.sub(r"[dD]", "e", text))
    return None


def parse_words(words: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Words (N) as ``parse_number`` reads them, NaN for one that is not a number, and the mask (N) of those that are."""
    place = {word: at for at, word in enumerate(dict.fromkeys(words))}  # damaged files repeat their words
    numbers = [bool(_NUMBER_OR_NAN.fullmatch(word)) for word in place]
    plain = b" ".join([word if number else b"nan" for word, number in zip(place, numbers, strict=True)])
    plain = plain.replace(b"D", b"e").replace(b"d", b"e")  # Fortran's exponents
    which = np.fromiter(map(place.__getitem__, words), np.intp, len(words))
    return np.array(list(map(float, plain.split())))[which], np.array(numbers, bool)[which]


def chunk_end(data: bytes, begin: int, stop: int, size: int = CHUNK) -> int:
    """Where a piece of ``data`` of at most ``size`` bytes from ``begin`` ends: after a line, else between words, else ``stop``."""
    end = begin + size
    if end >= stop:
        return stop
    for blank in (b"\n", b" ", b"\t"):
        found = data.rfind(blank, begin, end)
        if found >= begin:
            return found + 1
    return min(_next_blank(data, end), stop)


def _next_blank(data: bytes, position: int) -> int:
    found = _BLANKS.search(data, position)
    return found.end() if found else len(data)


def count_words(text: bytes) -> tuple[int, np.ndarray]:
    """The number of words in a text, and the number of words before each of its line feeds."""
    raw = np.frombuffer(text, np.uint8)
    blank = _SPACE[raw]
    first = ~blank
    first[1:] &= blank[:-1]
    feeds = np.flatnonzero(raw == 10)
    if not len(feeds):
        return int(np.count_nonzero(first)), feeds
    starts = np.concatenate([[0], feeds[:-1]])
    before = np.cumsum(np.add.reduceat(first[: feeds[-1] + 1], starts, dtype=np.int64))
    return int(before[-1] + np.count_nonzero(first[feeds[-1] :])), before


def read_numbers(text: bytes) -> np.ndarray | None:
    """All words (N) of a text as numbers; None if one is not a number."""
    raw = np.frombuffer(b" " + text + b" " * (_LONGEST + 1), np.uint8)
    blank = _SPACE[raw]
    edges = np.flatnonzero(blank[1:] != blank[:-1]) + 1
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    values = np.empty(len(starts))
    for at in range(0, len(starts), _WORDS):
        found = _plain_decimals(raw, starts[at : at + _WORDS], lengths[at : at + _WORDS])
        if found is None:
            found = _any_numbers(text + b" ")
            return found if found is not None and len(found) == len(starts) else None
        values[at : at + _WORDS] = found
    return values


def _plain_decimals(raw: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray | None:
    """The words of ``raw`` as numbers if all look like -12.345, else None.

    Digits are read one place at a time for all words together, three times as fast as parsing each word. Up to 15 digits
    make an exact integer and the power of ten is exact, so the quotient is correctly rounded.
    """
    if not len(starts):
        return np.zeros(0)
    longest = int(lengths.max())
    if longest > _LONGEST:
        return None
    negative = raw[starts] == 45
    signs = negative | (raw[starts] == 43)
    whole = np.zeros(len(starts))
    digits, decimals, dots = (np.zeros(len(starts), np.uint8) for _ in range(3))
    for place in range(longest):
        inside = lengths > place
        letter = raw[starts + place]
        digit = letter - 48  # wraps around for characters before "0"
        is_digit = (digit < 10) & inside
        whole = np.where(is_digit, whole * 10 + digit, whole)
        digits += is_digit
        decimals += is_digit & (dots > 0)
        dots += (letter == 46) & inside
    sound = (digits + dots + signs == lengths) & (digits > 0) & (digits < 16) & (dots < 2)
    if not sound.all():
        return None
    numbers = whole / _POWERS[decimals]
    return np.where(negative, -numbers, numbers)


def _any_numbers(text: bytes) -> np.ndarray | None:
    """The numbers of a text that ends with a space, including exponents and nan; None if it holds anything else."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return np.fromstring(text, dtype=np.float64, sep=" ")  # the text mode; only the binary one is deprecated
        except (ValueError, DeprecationWarning):
            return None
