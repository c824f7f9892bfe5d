# SPDX-License-Identifier: GPL-3.0-or-later
"""The handshake: what a client says about its rig, checked, and conversions between its space and core axes.

``docs/protocol.md`` lists the fields.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .axes import axes_matrix, convert_quaternions, convert_vectors
from .layouts import Channel, ChannelLayout, TwoBoneLimb, legs_layout, make_layout

MOST_VALUES = 512
"""Most numbers in a frame's inputs, and in its outputs."""
MOST_NAMES = 256
"""Most bones, and most channels."""
FIELDS = (
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
)


class Hello(NamedTuple):
    """A checked handshake."""

    rig: str
    bones: tuple[str, ...]
    layout: ChannelLayout | None
    """None for a client that neither teaches nor asks for predictions."""
    matrix: np.ndarray
    """(3, 3) from the client's axes to core axes."""
    unit: float
    """Metres in one of the client's units."""
    xyzw: bool
    watch: bool
    threshold: float | None
    fingerprint: str
    """Hash of everything the trainee's weights depend on: the name under which they are saved."""


def read_hello(value: Mapping[str, Any]) -> Hello:
    """Check a handshake. Raises ValueError with what was expected."""
    unknown = sorted(set(value) - set(FIELDS))
    if unknown:
        raise ValueError(f"handshake: expected the fields {sorted(FIELDS)}, got also {unknown[:5]}")
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
    layout = _layout(value, unit, order == "xyzw", up)
    if layout and max(layout.input_size, layout.output_size) > MOST_VALUES:
        raise ValueError(f"channels: expected at most {MOST_VALUES} numbers in and out, got more")
    identity = [rig, bones, unit, axes, order, *(value.get(k) for k in ("layout", "inputs", "outputs", "limbs"))]
    fingerprint = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]
    return Hello(rig, bones, layout, matrix, unit, order == "xyzw", watch, threshold, fingerprint)


def layout_fields(layout: ChannelLayout) -> dict[str, Any]:
    """A layout as the handshake's fields ``layout``, ``inputs``, ``outputs`` and ``limbs`` (rig units)."""
    out: dict[str, Any] = {"layout": layout.name}
    if layout.name == "legs":
        return out
    out["inputs"], out["outputs"] = _channel_fields(layout.inputs), _channel_fields(layout.outputs)
    out["limbs"] = [
        {
            "end": limb.end,
            "joint": limb.joint,
            "root": [v / layout.unit for v in limb.root],
            "upper": limb.upper / layout.unit,
            "lower": limb.lower / layout.unit,
            "rest": list(limb.rest),
        }
        for limb in layout.limbs
    ]
    return out


def positions_to_client(hello: Hello, positions: np.ndarray) -> np.ndarray:
    """Positions (..., 3) [m] in core axes as the client's (..., 3), in its axes and units."""
    return convert_vectors(hello.matrix.T, np.asarray(positions, np.float64)) / hello.unit


def positions_from_client(hello: Hello, positions: np.ndarray) -> np.ndarray:
    """The client's positions (..., 3) as positions (..., 3) [m] in core axes."""
    return convert_vectors(hello.matrix, positions * hello.unit)


def pose_to_client(hello: Hello, root_pos: np.ndarray, rotations: np.ndarray) -> np.ndarray:
    """A pose as the numbers (3 + 4 J) of a message: root head (3) [m] and rotations (J, 4), both in core axes."""
    turns = convert_quaternions(hello.matrix.T, np.asarray(rotations, np.float64))
    if hello.xyzw:
        turns = turns[..., [1, 2, 3, 0]]
    return np.concatenate([positions_to_client(hello, root_pos), turns.ravel()])


def rotations_from_client(hello: Hello, rotations: np.ndarray) -> np.ndarray:
    """The client's quaternions (..., 4), in its order, as unit quaternions (..., 4) in core axes.

    Raises ValueError where one is shorter than 0.5 or longer than 2.
    """
    if hello.xyzw:
        rotations = rotations[..., [3, 0, 1, 2]]
    length = np.linalg.norm(rotations, axis=-1, keepdims=True)
    if not bool(((length > 0.5) & (length < 2)).all()):
        raise ValueError("solve: expected unit quaternions")
    return convert_quaternions(hello.matrix, rotations / length)


def _layout(value: Mapping[str, Any], unit: float, xyzw: bool, up: tuple[float, ...]) -> ChannelLayout | None:
    name = value.get("layout")
    if name is None:
        return None
    if name == "legs":
        layout = legs_layout(unit=unit, xyzw=xyzw, up=up)
        for field, have in (("inputs", layout.inputs), ("outputs", layout.outputs)):
            if value.get(field) not in (None, _channel_fields(have)):
                raise ValueError(f"{field}: expected none, or exactly those of the built-in layout 'legs'")
        return layout
    if name == "free":
        return make_layout(
            _channels(value.get("inputs"), "inputs"),
            _channels(value.get("outputs"), "outputs"),
            tuple(_limb(v, unit) for v in _list(value.get("limbs", []), "limbs")),
            unit=unit,
            xyzw=xyzw,
            up=up,
        )
    raise ValueError(f"layout: expected 'legs', 'free' or nothing, got {name!r:.40}")


def _channel_fields(channels: tuple[Channel, ...]) -> list[dict[str, str]]:
    return [{"name": c.name, "kind": c.kind, "space": c.space} for c in channels]


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
        if not isinstance(item, dict) or not item.keys() <= {"name", "kind", "space"}:
            raise ValueError(f"{where}: expected objects with name, kind and space, got {item!r:.80}")
        kind, space = item.get("kind"), item.get("space", "world")
        out.append(Channel(_text(item.get("name"), where), _text(kind, where), _text(space, where)))
    return tuple(out)


def _limb(value: object, unit: float) -> TwoBoneLimb:
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
    return TwoBoneLimb(end, joint, root, upper, lower, vectors[1])  # type: ignore[arg-type]
