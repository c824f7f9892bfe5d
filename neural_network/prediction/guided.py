# SPDX-License-Identifier: GPL-3.0-or-later
"""The guided network at work, in NumPy: it corrects the library's first answer for all missing frames at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..learning import sequence

CONTACTS = 2
"""Feet whose contacts are told."""
LENGTHS = ((20, "short"), (40, "middle"), (10**9, "long"))
"""Most frames from key to key, and what such gaps are called."""


@dataclass(frozen=True)
class Shape:
    """Of the network."""

    told: int
    """Numbers in, for each frame."""
    rows: int
    """Numbers out."""
    width: int = 160
    depth: int = 4
    heads: int = 5
    wide: int = 320


def corrected(
    tensors: Mapping[str, np.ndarray], shape: Shape, told: np.ndarray, first: np.ndarray, room: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows (G, F, R), those known as they are, and how likely each foot stands (G, F, feet), 0 to 1."""
    x = sequence.linear(tensors, "into", told)
    x = sequence.transformer(tensors, "body", x, shape.heads)
    out = sequence.linear(tensors, "out", x)
    return first + out[..., : shape.rows] * room, sequence.sigmoid(out[..., shape.rows :])


def kind_of(length: int, share: float, ends: bool) -> str:
    """The kind of a gap: how long it is, and whether the library is trusted; corrections of each kind are worth another share."""
    size = next(word for most, word in LENGTHS if length <= most) if ends else "ahead"
    return f"{size}, {'library' if share >= 0.5 else 'straight'}"


def tensor_shapes(shape: Shape) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the network's tensors."""
    w = shape.width
    out: dict[str, tuple[int, ...]] = {"into.weight": (w, shape.told), "into.bias": (w,)}
    for i in range(shape.depth):
        at = f"body.blocks.{i}"
        for name, (rows, columns) in {
            "attention.qkv": (3 * w, w),
            "attention.out": (w, w),
            "wide": (shape.wide, w),
            "narrow": (w, shape.wide),
        }.items():
            out[f"{at}.{name}.weight"], out[f"{at}.{name}.bias"] = (rows, columns), (rows,)
        for name in ("norm_1", "norm_2"):
            out[f"{at}.{name}.weight"] = out[f"{at}.{name}.bias"] = (w,)
    out["body.norm.weight"] = out["body.norm.bias"] = (w,)
    out["out.weight"], out["out.bias"] = (shape.rows + CONTACTS, w), (shape.rows + CONTACTS,)
    return out
