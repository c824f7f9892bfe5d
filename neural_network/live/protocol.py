# SPDX-License-Identifier: GPL-3.0-or-later
"""The wire: messages of a 24-byte header and a payload over TCP, all little-endian. ``docs/protocol.md`` is its page.

Nothing here touches a socket: bytes in, messages out, and limits checked on the header alone, before a payload is kept.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from .axes import axes_matrix
from .channels import Channel, Layout, Limb, layout, legs_layout
from .trainee import LEARNING, SOLVING, Status

MAGIC = b"NIK1"
VERSION = 1
HEADER = struct.Struct("<4sBBHIId")
"""Magic, version, type, flags, payload length, sequence, time [s]."""
STATUS = struct.Struct("<ddIIBBH")
"""Error of the newest frame, usual error, frames, steps, state, pause bits, frames dropped."""

HANDSHAKE, TRAIN, PREDICT, SOLVE, CONTROL, PING, AUTH, POSE, ERROR = 1, 2, 3, 4, 5, 6, 7, 8, 0x7F
"""Message types."""
PAUSE, RESUME, SAVE, RESET, UNDO = 1, 2, 3, 4, 5
"""Codes of a control message."""
ANSWER, EXACT = 0x0001, 0x0002
"""Flags: this is an answer; put the feet exactly on their targets (prediction request)."""
IS_LEARNING, IS_SOLVING, IS_PAUSED, IS_POISONED = 0x0010, 0x0020, 0x0040, 0x0080
"""Flags of an answer to a prediction: what the trainee is doing."""

MOST_HANDSHAKE = 32768
MOST_PING = 64
MOST_VALUES = 512
"""Most numbers in a frame's inputs, and in its outputs."""
MOST_NAMES = 256
"""Most bones, and most channels."""
NONCE = 32
MAC = 32


class ProtocolError(ValueError):
    """Bytes that are not the protocol; after it the stream cannot be understood any more and is closed."""


class Message(NamedTuple):
    """One message."""

    type: int
    flags: int
    sequence: int
    time: float
    payload: bytes


def pack(kind: int, payload: bytes = b"", *, flags: int = 0, sequence: int = 0, time: float = 0.0) -> bytes:
    """One message as bytes. ``sequence`` is taken modulo 2^32, ``time`` is in seconds on any clock."""
    return HEADER.pack(MAGIC, VERSION, kind, flags, len(payload), sequence & 0xFFFFFFFF, time) + payload


def pack_numbers(kind: int, numbers: np.ndarray, **header: Any) -> bytes:
    """One message whose payload is a row of doubles."""
    return pack(kind, np.ascontiguousarray(numbers, "<f8").tobytes(), **header)


def pack_json(kind: int, value: Mapping[str, Any], **header: Any) -> bytes:
    """One message whose payload is a JSON object in UTF-8."""
    return pack(kind, json.dumps(value, allow_nan=False, separators=(",", ":")).encode(), **header)


def messages(buffer: bytearray, limits: Mapping[int, tuple[int, int]]) -> Iterator[Message]:
    """Take complete messages off the front of ``buffer``, which is shortened; what is incomplete stays.

    ``limits``: message type -> least and most bytes of its payload; other types are refused. Raises ProtocolError as
    soon as a header is wrong, with its payload still unread; also from a part of the magic, so that nobody waits.
    """
    while buffer:
        start = bytes(buffer[:4])
        if start != MAGIC[: len(start)]:
            raise ProtocolError(f"expected a message that begins with {MAGIC!r}, got {start!r}; is this a NIK1 client?")
        if len(buffer) < HEADER.size:
            return
        _, version, kind, flags, length, sequence, time = HEADER.unpack_from(buffer)
        if version != VERSION:
            raise ProtocolError(f"expected protocol version {VERSION}, got {version}")
        if kind not in limits:
            raise ProtocolError(f"expected one of the message types {sorted(limits)} now, got {kind}")
        least, most = limits[kind]
        if not least <= length <= most:
            raise ProtocolError(f"message type {kind}: expected a payload of {least} to {most} bytes, got {length}")
        if not math.isfinite(time):
            raise ProtocolError(f"message type {kind}: expected a finite time, got {time}")
        end = HEADER.size + length
        if len(buffer) < end:
            return
        payload = bytes(buffer[HEADER.size : end])
        del buffer[:end]
        yield Message(kind, flags, sequence, time, payload)


def numbers(payload: bytes) -> np.ndarray:
    """A payload of doubles as an array (n); a rest of under 8 bytes is refused with ValueError."""
    if len(payload) % 8:
        raise ValueError(f"payload: expected doubles of 8 bytes, got {len(payload)} bytes")
    return np.frombuffer(payload, "<f8").astype(np.float64)


def read_json(payload: bytes) -> dict[str, Any]:
    """A payload as a JSON object; ValueError for anything else, NaN and infinity included."""
    try:
        value = json.loads(payload.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"payload: expected a JSON object in UTF-8, could not read it: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"payload: expected a JSON object, got {type(value).__name__}")
    return value


def mac(token: str, role: str, first: bytes, second: bytes) -> bytes:
    """HMAC-SHA256 under the token over ``NIK1 role``, a zero byte and both nonces; role is ``client`` or ``server``."""
    return hmac.new(token.encode(), b"NIK1 " + role.encode() + b"\0" + first + second, hashlib.sha256).digest()


class Hello(NamedTuple):
    """A handshake, checked."""

    rig: str
    bones: tuple[str, ...]
    layout: Layout | None
    matrix: np.ndarray
    """(3, 3) from the client's axes to armature space."""
    unit: float
    xyzw: bool
    watch: bool
    threshold: float | None
    fingerprint: str
    """Of all that the trainee's weights depend on: the name under which they are saved."""


def read_hello(value: Mapping[str, Any]) -> Hello:
    """Check a handshake (see ``docs/protocol.md`` for its fields). Raises ValueError with what was expected."""
    known = {
        "rig",
        "bones",
        "units",
        "axes",
        "quaternion",
        "layout",
        "inputs",
        "outputs",
        "limbs",
        "watch",
        "threshold",
    }
    unknown = sorted(set(value) - known)
    if unknown:
        raise ValueError(f"handshake: expected the fields {sorted(known)}, got also {unknown[:5]}")
    rig = _text(value.get("rig"), "rig")
    bones = tuple(_text(b, "bones") for b in _list(value.get("bones", []), "bones"))
    unit = _number(value.get("units", 1.0), "units", 1e-6, 1e6)
    axes = [_text(a, "axes") for a in _list(value.get("axes"), "axes")]
    matrix = axes_matrix(axes)
    order = value.get("quaternion", "wxyz")
    if order not in ("wxyz", "xyzw"):
        raise ValueError(f"quaternion: expected 'wxyz' or 'xyzw', got {order!r:.40}")
    watch = value.get("watch", False)
    if not isinstance(watch, bool):
        raise ValueError("watch: expected true or false")
    threshold = value.get("threshold")
    if threshold is not None:
        threshold = _number(threshold, "threshold", 1e-5, 1.0)
    up = tuple(float(v) for v in matrix.T @ np.array([0.0, 0.0, 1.0]))
    name = value.get("layout")
    shape: Layout | None = None
    if name == "legs":
        shape = legs_layout(unit=unit, xyzw=order == "xyzw", up=up)
        for field, have in (("inputs", shape.inputs), ("outputs", shape.outputs)):
            if value.get(field) not in (None, [{"name": c.name, "kind": c.kind, "space": c.space} for c in have]):
                raise ValueError(f"{field}: expected none, or exactly those of the built-in layout 'legs'")
    elif name == "free":
        shape = layout(
            _channels(value.get("inputs"), "inputs"),
            _channels(value.get("outputs"), "outputs"),
            tuple(_limb(v, unit) for v in _list(value.get("limbs", []), "limbs")),
            unit=unit,
            xyzw=order == "xyzw",
            up=up,
        )
    elif name is not None:
        raise ValueError(f"layout: expected 'legs', 'free' or nothing, got {name!r:.40}")
    if shape and max(shape.input_size, shape.output_size) > MOST_VALUES:
        raise ValueError(f"channels: expected at most {MOST_VALUES} numbers in and out, got more")
    parts = [rig, bones, unit, axes, order, name, value.get("inputs"), value.get("outputs"), value.get("limbs")]
    fingerprint = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
    return Hello(rig, bones, shape, matrix, unit, order == "xyzw", watch, threshold, fingerprint)


def describe(shape: Layout) -> dict[str, Any]:
    """The channels of a layout as the handshake's fields ``layout``, ``inputs``, ``outputs``, ``limbs`` (rig units)."""
    out: dict[str, Any] = {"layout": shape.name}
    if shape.name == "legs":
        return out
    for field, have in (("inputs", shape.inputs), ("outputs", shape.outputs)):
        out[field] = [{"name": c.name, "kind": c.kind, "space": c.space} for c in have]
    out["limbs"] = [
        {
            "end": limb.end,
            "joint": limb.joint,
            "root": [v / shape.unit for v in limb.root],
            "upper": limb.upper / shape.unit,
            "lower": limb.lower / shape.unit,
            "rest": list(limb.rest),
        }
        for limb in shape.limbs
    ]
    return out


def pack_status(status: Status, dropped: int) -> bytes:
    """A status as the payload of an answer to a training frame or a control message (28 bytes)."""
    bits = int(status.paused) + 2 * int(status.poisoned)
    error, usual = (v if math.isfinite(v) else -1.0 for v in (status.error, status.usual))
    return STATUS.pack(error, usual, status.frames, status.steps, status.state, bits, min(dropped, 0xFFFF))


def read_status(payload: bytes) -> tuple[Status, int]:
    """The way back of ``pack_status``: the status and how many frames were dropped."""
    error, usual, frames, steps, state, bits, dropped = STATUS.unpack(payload)
    return Status(state, bool(bits & 1), bool(bits & 2), frames, steps, error, usual), dropped


def state_flags(status: Status) -> int:
    """Flags of an answer to a prediction."""
    flags = {LEARNING: IS_LEARNING, SOLVING: IS_SOLVING}.get(status.state, 0)
    return flags | IS_PAUSED * status.paused | IS_POISONED * status.poisoned


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 63 or not value.isprintable():
        raise ValueError(f"{where}: expected text of 1 to 63 printable characters, got {value!r:.80}")
    return value


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list) or len(value) > MOST_NAMES:
        raise ValueError(f"{where}: expected a list of at most {MOST_NAMES}")
    return value


def _number(value: object, where: str, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ValueError(f"{where}: expected a number from {least:g} to {most:g}, got {value!r:.40}")
    return float(value)


def _channels(value: object, where: str) -> tuple[Channel, ...]:
    out = []
    for item in _list(value, where):
        if not isinstance(item, dict) or not set(item) <= {"name", "kind", "space"}:
            raise ValueError(f"{where}: expected objects with name, kind and space, got {item!r:.80}")
        parts = (item.get("name"), item.get("kind"), item.get("space", "world"))
        out.append(Channel(*(_text(part, where) for part in parts)))
    return tuple(out)


def _limb(value: object, unit: float) -> Limb:
    if not isinstance(value, dict) or set(value) != {"end", "joint", "root", "upper", "lower", "rest"}:
        raise ValueError(f"limbs: expected objects with end, joint, root, upper, lower and rest, got {value!r:.80}")
    vectors = []
    for field in ("root", "rest"):
        three = _list(value[field], f"limb {field}")
        if len(three) != 3:
            raise ValueError(f"limb {field}: expected three numbers, got {len(three)}")
        vectors.append(tuple(_number(v, f"limb {field}", -1e6, 1e6) for v in three))
    root = tuple(unit * v for v in vectors[0])
    upper, lower = (unit * _number(value[field], f"limb {field}", 0, 1e6) for field in ("upper", "lower"))
    end, joint = (_text(value[field], f"limb {field}") for field in ("end", "joint"))
    return Limb(end, joint, root, upper, lower, vectors[1])  # type: ignore[arg-type]
