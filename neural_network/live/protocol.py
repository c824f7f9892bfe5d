# SPDX-License-Identifier: GPL-3.0-or-later
"""The wire format: messages of a 24-byte header and a payload over TCP, little-endian (``docs/protocol.md``).

Nothing here touches a socket: bytes in, messages out. Limits are checked on the header alone, before a payload is stored.
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

from ..core.files import parse_json
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
"""Flags: the message is an answer; a prediction request asks for feet exactly on their targets."""
IS_LEARNING, IS_SOLVING, IS_PAUSED, IS_POISONED = 0x0010, 0x0020, 0x0040, 0x0080
"""Flags of an answer to a prediction: the trainee's state."""

MOST_HANDSHAKE = 32768
MOST_PING = 64
"""[bytes] longest payloads."""
NONCE = 32
MAC = 32
"""[bytes]"""


class ProtocolError(ValueError):
    """Bytes that violate the protocol. The rest of the stream cannot be read, so the connection is closed."""


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
    """Remove complete messages from the front of ``buffer`` and yield them; an incomplete one stays.

    ``limits``: message type -> least and most bytes of its payload; other types are refused. Raises ProtocolError as soon
    as a header, or the first bytes of its magic, are wrong, without waiting for the payload.
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
    """A payload of doubles as an array (n). Raises ValueError where its length is not a multiple of 8."""
    if len(payload) % 8:
        raise ValueError(f"payload: expected doubles of 8 bytes, got {len(payload)} bytes")
    return np.frombuffer(payload, "<f8").astype(np.float64)


def read_json(payload: bytes) -> dict[str, Any]:
    """A payload as a JSON object. Raises ValueError for anything else, including NaN, infinity and a name given twice."""
    try:
        value = parse_json(payload.decode("utf-8"), _no_constant)
    except ValueError as error:
        raise ValueError(f"payload: expected a JSON object in UTF-8, could not read it: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"payload: expected a JSON object, got {type(value).__name__}")
    return value


def mac(token: str, role: str, first: bytes, second: bytes) -> bytes:
    """HMAC-SHA256 under the token over ``NIK1 role``, a zero byte and both nonces; role is ``client`` or ``server``."""
    return hmac.new(token.encode(), b"NIK1 " + role.encode() + b"\0" + first + second, hashlib.sha256).digest()


def pack_status(status: Status, dropped: int) -> bytes:
    """A status as the payload of an answer to a training frame or a control message (28 bytes)."""
    bits = int(status.paused) + 2 * int(status.poisoned)
    error, usual = (v if math.isfinite(v) else -1.0 for v in (status.error, status.usual))
    return STATUS.pack(error, usual, status.frames, status.steps, status.state, bits, min(dropped, 0xFFFF))


def read_status(payload: bytes) -> tuple[Status, int]:
    """The inverse of ``pack_status``: the status and how many frames were dropped."""
    error, usual, frames, steps, state, bits, dropped = STATUS.unpack(payload)
    return Status(state, bool(bits & 1), bool(bits & 2), frames, steps, error, usual), dropped


def state_flags(status: Status) -> int:
    """Flags of an answer to a prediction, from the trainee's status."""
    flags = {LEARNING: IS_LEARNING, SOLVING: IS_SOLVING}.get(status.state, 0)
    return flags | IS_PAUSED * status.paused | IS_POISONED * status.poisoned


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")
