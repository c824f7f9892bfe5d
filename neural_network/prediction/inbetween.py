# SPDX-License-Identifier: GPL-3.0-or-later
"""The network that fills gaps, in NumPy: a Transformer that bends spherical interpolation into motion, all frames at once.

It knows the frames around a gap and how far they are, and nothing of the library: so what it answers is another opinion than the
library's, and their average is nearer to the truth than either (:func:`.gaps.worth`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..learning import sequence

CONTACTS = 2
"""Feet whose contacts are told."""


@dataclass(frozen=True)
class Shape:
    """Of the network."""

    told: int
    """Numbers in, for each frame."""
    rows: int
    """Numbers out."""
    width: int = 144
    depth: int = 4
    heads: int = 6
    wide: int = 288


def answered(
    tensors: Mapping[str, np.ndarray], shape: Shape, told: np.ndarray, straight: np.ndarray, room: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows (G, F, R), those known as they are, and how likely each foot stands (G, F, feet), 0 to 1.

    ``told``: :func:`.gaps.told`; ``straight`` (G, F, R) the interpolation that is bent; ``room`` (F, R): :func:`.gaps.room`.
    """
    x = sequence.linear(tensors, "into", told)
    x = sequence.transformer(tensors, "body", x, shape.heads)
    out = sequence.linear(tensors, "out", x)
    return straight + out[..., : shape.rows] * room, sequence.sigmoid(out[..., shape.rows :])


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
