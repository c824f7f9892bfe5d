# SPDX-License-Identifier: GPL-3.0-or-later
"""Damage for files of arrays (npz, best.npy) and of JSON: bytes, headers, types, shapes, numbers and texts that do not fit."""

from __future__ import annotations

import copy
import io
import json
import struct
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

ODD_NUMBERS = (np.nan, np.inf, -np.inf, 1e30, -1e30, -1, 0, 1e-300, 2**31, 2**53, 1e9)
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1.5, 2**31, 2**70, 10**400, 1e308, float("nan"), float("inf"), "", "x", "Hips", [], {}, [[]]),
    *([None], [1, "a"], {"a": 1}, "\ud800", "x" * 5000, [0] * 3000, [-1, 0, 1]),
)
TYPES = ("<f4", "<f8", "<f2", ">f4", "<i4", "<i8", "<u8", "|b1", "|u1", "<c16", "<U5", "|S3", "<M8[s]", "<U0", "|V4")
SHAPES = ((), (0,), (3,), (2**40,), (2**62, 2**62), (2**40, 0), (-1,), (1,) * 40, (10**6, 23, 3), 5, None)


def damaged_archive(data: bytes, rng: np.random.Generator) -> bytes:
    """An npz with one to three of its members, or its bytes, damaged."""
    if rng.random() < 0.25:
        return damaged_bytes(data, rng)
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        members = [(name.removesuffix(".npy"), found.read(name)) for name in found.namelist()]
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(members)))
        name, member = members[at]
        kind = int(rng.integers(0, 12))
        if kind == 0 and len(members) > 1:
            del members[at]
        elif kind == 1:
            members.append((name, member))
        elif kind == 2:
            members.append(("junk", _zeros(5_000_000)))
        elif kind == 3:
            other = int(rng.integers(len(members)))
            members[at] = (name, members[other][1])
        elif kind == 4:
            members[at] = (name, damaged_bytes(member, rng))
        elif kind == 5:
            members[at] = (name, _lying_header(rng) + member[128 : 128 + int(rng.integers(0, 200))])
        elif kind == 6:
            members[at] = (f"{name}{ODD_NAMES[int(rng.integers(len(ODD_NAMES)))]}", member)
        else:
            members[at] = (name, _changed(member, rng))
    out = io.BytesIO()
    compression = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)[int(rng.choice(3, p=(0.6, 0.35, 0.05)))]
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", compression) as archive:
        warnings.simplefilter("ignore")  # two members of one name
        for name, member in members:
            archive.writestr(f"{name}.npy", member)
    return out.getvalue()


ODD_NAMES = ("x", " ", "\n", "\N{SNOWMAN}", ".npy", "/../../x", "y" * 3000)


def damaged_record(data: bytes, rng: np.random.Generator) -> bytes:
    """A single record (best.npy) with one to three of its fields, or its bytes, damaged."""
    if rng.random() < 0.35:
        return damaged_bytes(data, rng)
    record = np.load(io.BytesIO(data))
    fields = {name: np.asarray(record[name]) for name in record.dtype.names}
    for _ in range(int(rng.integers(1, 4))):
        name = list(fields)[int(rng.integers(len(fields)))]
        kind = int(rng.integers(0, 6))
        if kind == 0 and len(fields) > 1:
            del fields[name]
        elif name == "about" or (kind == 1 and "about" in fields):
            text = damaged_json(bytes(fields["about"]) if fields["about"].dtype.kind == "S" else b"{}", rng)
            fields["about"] = np.array(text or b" ")
        else:
            fields[name] = _changed_array(fields[name], rng)
    made = np.zeros(
        (), [(name, array.dtype.str, array.shape) for name, array in fields.items() if array.dtype.itemsize]
    )
    for name in made.dtype.names or ():
        made[name] = fields[name]
    out = io.BytesIO()
    np.save(out, made)
    return out.getvalue()


def damaged_json(data: bytes, rng: np.random.Generator) -> bytes:
    """A JSON text with one to three values replaced, or its bytes damaged."""
    if rng.random() < 0.3:
        return damaged_bytes(data, rng)
    if rng.random() < 0.03:
        return (b"[", b'{"a":', b"-", b"1" * 5000, b"\xff\xfe", b"\x00")[int(rng.integers(6))] * 3000
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError):  # damaged by an earlier turn
        return damaged_bytes(data, rng)
    for _ in range(int(rng.integers(1, 4))):
        value = _with_other_value(value, rng)
    return json.dumps(value).encode()


def _with_other_value(value: Any, rng: np.random.Generator) -> Any:
    """A copy of a JSON value in which one place, however deep, holds something else, or is missing."""
    value = copy.deepcopy(value)
    place: Any = value
    odd = copy.deepcopy(ODD_VALUES[int(rng.integers(len(ODD_VALUES)))])
    while isinstance(place, (dict, list)) and place:
        keys: Any = list(place) if isinstance(place, dict) else range(len(place))
        key = keys[int(rng.integers(len(keys)))]
        inner = place[key]
        if not isinstance(inner, (dict, list)) or not inner or rng.random() < 0.3:
            if rng.random() < 0.2:
                del place[key]
            else:
                place[key] = odd
            return value
        place = inner
    return odd


def damaged_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Bits flipped, pieces cut out, repeated, exchanged or made up, one to three times."""
    for _ in range(int(rng.integers(1, 4))):
        data = damaged_once(data, rng)
    return data


def damaged_once(data: bytes, rng: np.random.Generator) -> bytes:
    """The data with one piece of up to 300 bytes cut out, repeated, exchanged or made up, or cut short, or bits flipped."""
    a, b = sorted(int(x) for x in rng.integers(0, len(data) + 1, 2))
    b = min(b, a + int(rng.integers(1, 300)))
    kind = int(rng.integers(0, 6))
    if kind == 0:
        return data[:a]
    if kind == 1:
        return data[:a] + data[b:]
    if kind == 2:
        return data[:b] + data[a:b] * int(rng.integers(1, 20)) + data[b:]
    if kind == 3:
        return data[:a] + rng.integers(0, 256, b - a, dtype=np.uint8).tobytes() + data[b:]
    if kind == 4:
        return data[:a] + (b"\xff", b"\x00")[int(rng.integers(2))] * (b - a) + data[b:]
    flipped = bytearray(data)
    for at in rng.integers(0, len(data), 4) if data else ():
        flipped[int(at)] ^= 1 << int(rng.integers(8))
    return bytes(flipped)


def _changed(member: bytes, rng: np.random.Generator) -> bytes:
    """The .npy of another array than in ``member``; a text that it holds is changed as JSON."""
    try:
        array = np.load(io.BytesIO(member))
    except Exception:  # damaged by an earlier turn
        return damaged_bytes(member, rng)
    if array.size > len(member):  # elements of no bytes, which would become gigabytes
        return damaged_bytes(member, rng)
    if array.dtype == np.uint8 and array.ndim == 1 and rng.random() < 0.8:
        try:
            array = np.frombuffer(damaged_json(array.tobytes(), rng), np.uint8)
        except ValueError:
            array = array[:-1]
    else:
        array = _changed_array(array, rng)
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


def _changed_array(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    kind = int(rng.integers(0, 4))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == 0:
            try:
                return array.astype(TYPES[int(rng.integers(len(TYPES) - 2))])
            except (ValueError, TypeError, RuntimeError):  # a cast that NumPy does not have
                return np.zeros(3)
        if kind == 1 and array.size:
            shapes: tuple[Callable[[], np.ndarray], ...] = (
                lambda: array.ravel(),
                lambda: array[..., None],
                lambda: array.T,
                lambda: array.ravel()[0],
                lambda: np.repeat(array[None], 3, 0),
                lambda: array[:0] if array.ndim else array,
                lambda: np.concatenate([array, array]) if array.ndim else array,
                lambda: array[:-1] if array.ndim else array,
            )
            return np.array(shapes[int(rng.integers(len(shapes)))]())
        if array.dtype.kind in "fiu" and array.size:
            out = array.copy()
            for _ in range(int(rng.integers(1, 5))):
                number = ODD_NUMBERS[int(rng.integers(len(ODD_NUMBERS)))]
                out.flat[int(rng.integers(out.size))] = np.array(number).astype(out.dtype)
            return out
        if array.dtype.kind == "U" and array.size:
            out = array.astype("U20")
            out.flat[int(rng.integers(out.size))] = ("", "x", str(out.flat[0]), "\ud800")[int(rng.integers(4))]
            return out
    return np.zeros(3)


def _lying_header(rng: np.random.Generator) -> bytes:
    shape, kind = SHAPES[int(rng.integers(len(SHAPES)))], TYPES[int(rng.integers(len(TYPES)))]
    text = repr({"descr": kind, "fortran_order": bool(rng.integers(2)), "shape": shape}).encode().ljust(117) + b"\n"
    length = len(text) if rng.random() < 0.9 else int(rng.integers(0, 65536))
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", length) + text


def _zeros(size: int) -> bytes:
    out = io.BytesIO()
    np.save(out, np.zeros(size // 8))
    return out.getvalue()
