# SPDX-License-Identifier: GPL-3.0-or-later
"""Weights of the guided network: their file, and the network at work."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..learning import model_file
from . import gaps, inbetween
from .gaps import Gaps, Guides
from .inbetween import Shape

KIND = "motion"
SHIPPED = Path(__file__).resolve().parents[2] / "training_data" / "weights" / "motion.npz"
MISSING = "train them with standalone_trainer.py motion"


@dataclass(frozen=True)
class Network:
    """A guided network and what is known of it."""

    shape: Shape
    tensors: Mapping[str, np.ndarray]
    """float32"""
    about: Mapping[str, Any]
    """Data, configuration, figures."""

    def corrected(self, gap: Gaps, guide: Guides) -> tuple[np.ndarray, np.ndarray]:
        """Rows (G, F, R) of gaps seen from their last known frame, and how likely each foot stands (G, F, feet)."""
        rows, likely = guided.corrected(self.tensors, self.shape, gaps.told(gap, guide), guide.first, gaps.room(gap))
        kinds = [guided.kind_of(gap.length, share, gap.after > 0) for share in guide.share.tolist()]
        worth = np.array([self.worth.get(kind, 1.0) for kind in kinds])
        return guide.first + worth[:, None, None] * (rows - guide.first), likely

    @property
    def worth(self) -> Mapping[str, float]:
        """By kind of gap, how much of a correction is taken."""
        found: Mapping[str, float] = self.about.get("worth", {})
        return found


def load(path: str | os.PathLike[str] = SHIPPED) -> Network:
    """Read weights; FileNotFoundError where there are none, ValueError with the reason for any other file."""
    model = model_file.read(path, KIND, MISSING)
    name = Path(path).name
    try:
        shape = Shape(**{key: int(value) for key, value in model.about["shape"].items()})
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{name}: expected the shape of a motion network, got another file") from None
    worth = model.about.get("worth", {})
    if not isinstance(worth, dict) or not all(isinstance(v, float) and 0 <= v <= 1 for v in worth.values()):
        raise ValueError(f"{name}: expected shares from 0 to 1 under worth, got another file")
    wanted = inbetween.tensor_shapes(shape)
    for key, size in wanted.items():
        if key not in model.tensors or model.tensors[key].shape != size:
            got = model.tensors[key].shape if key in model.tensors else "nothing"
            raise ValueError(f"{name}: {key}: expected {size}, got {got}")
    tensors = {key: model.tensors[key].astype(np.float32) for key in wanted}
    model_file.require_learned(tensors)
    return Network(shape, tensors, model.about)


def save(path: str | os.PathLike[str], network: Network) -> None:
    """Write weights in half precision, whole or not at all."""
    about = {**network.about, "shape": vars(network.shape)}
    model_file.write(path, model_file.Model(KIND, about, {k: v.astype(np.float16) for k, v in network.tensors.items()}))


def in_file(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Weights as a file gives them back, to be judged as they are used."""
    return {name: array.astype(np.float16).astype(np.float32) for name, array in tensors.items()}
