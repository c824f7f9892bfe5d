# SPDX-License-Identifier: GPL-3.0-or-later
"""Weights of the network that fills gaps: their file, and the network at work."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..core.skeleton import Skeleton
from ..learning import model_file
from ..motion import features
from . import gaps, inbetween
from .gaps import Gaps, Guides
from .inbetween import Shape

KIND = "motion"
SHIPPED = Path(__file__).resolve().parents[2] / "training_data" / "weights" / "motion.npz"
MISSING = "train them with standalone_trainer.py motion"


@dataclass(frozen=True)
class Network:
    """One or more networks that fill gaps, whose answers are averaged, and what is known of them."""

    shape: Shape
    tensors: Mapping[str, np.ndarray]
    """float32, each with one more axis in front, the networks."""
    about: Mapping[str, Any]
    """Data, configuration, figures."""

    @cached_property
    def members(self) -> list[dict[str, np.ndarray]]:
        """The tensors of each network."""
        count = len(next(iter(self.tensors.values())))
        return [{name: array[k] for name, array in self.tensors.items()} for k in range(count)]

    def answered(self, body: Skeleton, gap: Gaps, straight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows (G, F, R) of gaps seen from their last known frame, whose interpolation is ``straight`` (G, F, R), and how likely each
        foot stands (G, F, feet), 0 to 1: the mean of what all networks answer to them and to their mirror images."""
        order, signs = features.mirrored_rows(body)
        both = np.concatenate([straight, straight[..., order] * signs]).astype(np.float32)
        told, room = gaps.told(gap, both), gaps.room(gap)
        found = [inbetween.answered(tensors, self.shape, told, both, room) for tensors in self.members]
        rows, likely = (np.mean(parts, axis=0) for parts in zip(*found, strict=True))
        half = len(straight)
        mirrored = rows[half:][..., order] * signs
        return 0.5 * (rows[:half] + mirrored), 0.5 * (likely[:half] + likely[half:, :, ::-1])

    def mixed(self, body: Skeleton, gap: Gaps, guide: Guides) -> tuple[np.ndarray, np.ndarray]:
        """The same, averaged with what is answered without the network and with interpolation (:func:`.gaps.worth`)."""
        rows, likely = self.answered(body, gap, guide.straight)
        by_network, by_any = gaps.worth(guide.windows[0].cost, gap.length)[..., None, None]
        rows = guide.first + by_network * (rows - guide.first)
        rows = guide.straight + by_any * (rows - guide.straight)
        stands = guide.contact + by_network * (likely - guide.contact)
        return np.where(gap.known[:, None], guide.first, rows), np.where(gap.known[:, None], 0, stands)


def load(path: str | os.PathLike[str] = SHIPPED) -> Network:
    """Read weights; FileNotFoundError where there are none, ValueError with the reason for any other file."""
    model = model_file.read(path, KIND, MISSING)
    name = Path(path).name
    try:
        shape = Shape(**{key: int(value) for key, value in model.about["shape"].items()})
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{name}: expected the shape of a motion network, got another file") from None
    tensors = {}
    for key, size in inbetween.tensor_shapes(shape).items():
        found = model.tensors.get(key)
        if found is None or not found.shape[0] or found.shape[1:] != size:
            raise ValueError(
                f"{name}: {key}: expected (networks, *{size}), got {'nothing' if found is None else found.shape}"
            )
        tensors[key] = found.astype(np.float32)
        if found.dtype.kind == "i":
            scale = model.tensors.get(f"{key}.scale")
            if scale is None or scale.shape != (*found.shape[:-1], 1):
                raise ValueError(f"{name}: {key}: expected a scale for each of its rows, got another file")
            tensors[key] *= scale.astype(np.float32)
    if len({len(array) for array in tensors.values()}) > 1:
        raise ValueError(f"{name}: expected as many networks in every tensor, got another file")
    model_file.require_learned(tensors)
    return Network(shape, tensors, model.about)


def save(path: str | os.PathLike[str], network: Network) -> None:
    """Write weights whole or not at all: those of matrices in eight bits with a scale for each row, all others in half precision."""
    about = {**network.about, "shape": vars(network.shape)}
    model_file.write(path, model_file.Model(KIND, about, _packed(network.tensors)))


def of_one(shape: Shape, tensors: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> Network:
    """A single network, its weights as a file gives them back, to be judged as they are used."""
    packed = _packed({name: array[None] for name, array in tensors.items()})
    kept = {name: packed[name].astype(np.float32) * packed.get(f"{name}.scale", np.float32(1)) for name in tensors}
    return Network(shape, kept, about)


def joined(networks: Sequence[Network]) -> Network:
    """Several of one shape as one; ValueError where they differ."""
    if any(other.shape != networks[0].shape for other in networks):
        raise ValueError("expected networks of one shape, got others")
    parts = [other.tensors for other in networks]
    about = {
        "takes": sorted({take for other in networks for take in other.about["takes"]}),
        "validated_on": sorted({take for other in networks for take in other.about["validated_on"]}),
        "networks": [other.about for other in networks],
    }
    return Network(
        networks[0].shape, {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, about
    )


def _packed(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    out = {}
    for name, array in tensors.items():
        if array.ndim < 3:
            out[name] = array.astype(np.float16)
            continue
        scale = np.maximum(np.abs(array).max(axis=-1, keepdims=True), 1e-8).astype(np.float32) / 127
        out[name], out[f"{name}.scale"] = np.rint(array / scale).astype(np.int8), scale
    return out
