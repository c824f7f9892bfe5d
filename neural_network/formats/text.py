# SPDX-License-Identifier: GPL-3.0-or-later
"""Text as motion files hold it: encodings, names, and numbers by the million."""

from __future__ import annotations

import codecs
import re
import warnings
from array import array

import numpy as np

CHUNK = 1 << 17  # [bytes] of text looked at in one go
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eEdD][-+]?\d+)?"
_LONGEST = 24  # letters in a number of the quick kind
_POWERS = 10.0 ** np.arange(_LONGEST)
_SPACE = np.zeros(256, bool)
_SPACE[[9, 10, 11, 12, 13, 32]] = True

_OTHER_FORMATS = (
    (b"Kaydara FBX", "an FBX file: import it through Blender"),
    (b"; FBX", "an FBX file: import it through Blender"),
    (b"glTF", "a GLB file: import it through Blender"),
    (b"BLENDER", "a .blend file: extract its actions through Blender"),
    (b"PK\x03\x04", "a zip archive: unpack it first"),
    (b"\x1f\x8b", "a gzip archive: unpack it first"),
    (b"7z\xbc\xaf", "a 7z archive: unpack it first"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself: fetch the file first"),
    (b"<!DOCTYPE", "a web page, not a BVH file: download the file itself"),
    (b"<html", "a web page, not a BVH file: download the file itself"),
)


def plain_bytes(data: bytes, source: str, notes: list[str], expected: str = "a BVH file with HIERARCHY") -> bytes:
    """Bytes of a text file in an ASCII-compatible encoding with line feeds.

    Byte-order marks, UTF-16 and UTF-32, Ctrl-Z at the end and lone carriage returns are taken away; the encoding of
    names stays open (see ``decode``). ValueError for an empty file, binary data and files of other well-known types.
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
    if data.startswith(codecs.BOM_UTF8):
        data = data[len(codecs.BOM_UTF8) :]
    for magic, what in _OTHER_FORMATS:
        if data[:64].lstrip().startswith(magic):
            raise ValueError(f"{source}: this is {what}")
    if b"\x00" in data:
        if data.count(b"\x00") > 0.01 * len(data):
            raise ValueError(f"{source}: binary data; expected {expected}")
        notes.append(f"{source}: {data.count(0)} zero bytes were taken as blanks")
        data = data.replace(b"\x00", b" ")
    if b"\x1a" in data[-16:]:
        data = data.rstrip(b"\x1a\r\n\t ") + b"\n"
    if b"\r" in data and b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    if b"\xc2\xa0" in data and _is_utf8(data[:CHUNK]):
        notes.append(f"{source}: no-break spaces were read as blanks")
        data = data.replace(b"\xc2\xa0", b" ")
    return data


def _is_utf8(data: bytes) -> bool:
    try:
        data.rsplit(b"\n", 1)[0].decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def decode(header: bytes) -> str:
    """Text with names: UTF-8, else Shift-JIS or GB18030 where it looks like one, else Latin-1 (which always fits).

    A single high byte among ASCII letters, as in "H\xfcfte", is Latin-1; East Asian text has pairs of high
    bytes or bytes that are control codes in Latin-1, and Shift-JIS names have no half-width letters.
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
    """A word as a float, Fortran's D exponents too; None where it is no number."""
    try:
        return (
            float(word) if b"_" not in (word if isinstance(word, bytes) else word.encode("utf-8", "replace")) else None
        )
    except ValueError:
        pass
    text = word if isinstance(word, str) else word.decode("latin-1")
    if re.fullmatch(_NUMBER, text):
        return float(re.sub(r"[dD]", "e", text))
    return None


def read_numbers(block: bytes) -> tuple[np.ndarray | None, np.ndarray]:
    """All numbers (N) of a text, None where a word is no number; and the count of words up to each line's end."""
    values, ends = array("d"), array("q")
    position, clean = 0, True
    while position < len(block):
        stop = min(position + CHUNK, len(block))
        if stop < len(block):  # cut between two words
            cut = max(block.rfind(b"\n", position, stop), block.rfind(b" ", position, stop))
            stop = cut + 1 if cut >= position else _next_blank(block, stop)
        text = block[position:stop]
        position = stop
        raw = np.frombuffer(b" " + text + b" " * (_LONGEST + 1), np.uint8)
        blank = _SPACE[raw]
        edges = np.flatnonzero(blank[1:] != blank[:-1]) + 1
        starts, lengths = edges[::2], edges[1::2] - edges[::2]
        lines = np.searchsorted(starts, np.flatnonzero(raw == 10)) + len(values)
        found = _plain_decimals(raw, starts, lengths) if clean else None
        if found is None and clean:
            found = _any_numbers(text)
            clean = found is not None and len(found) == len(starts)
        values.frombytes((found if clean and found is not None else np.zeros(len(starts))).tobytes())
        ends.frombytes(lines.astype(np.int64).tobytes())
    if block and not block.endswith(b"\n"):
        ends.append(len(values))
    return (np.frombuffer(values, np.float64) if clean else None), np.frombuffer(ends, np.int64)


def _next_blank(block: bytes, position: int) -> int:
    found = re.compile(rb"\s").search(block, position)
    return found.end() if found else len(block)


def _plain_decimals(raw: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray | None:
    """The words of ``raw`` as numbers where all are like -12.345, None where one is not.

    Digits are gathered one place at a time for all words together, three times as fast as calling a number parser for
    each. Up to 15 digits make an exact integer and the power of ten is exact, so the quotient is correctly rounded.
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
        digit = letter - 48  # wraps around for what stands before "0"
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
    """The numbers of a text that ends with a blank, exponents and nan included; None where something else is in it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return np.fromstring(text, dtype=np.float64, sep=" ")  # the text mode; only the binary one is deprecated
        except (ValueError, DeprecationWarning):
            return None
