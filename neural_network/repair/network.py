# SPDX-License-Identifier: GPL-3.0-or-later
"""The networks in NumPy: what they say about motion, and the files that hold them.

Three kinds see the same numbers and say the same: ``convolution``, dilated, which is used, with the mean over the whole clip
half-way, since what goes wrong mostly does so all along; ``gru``, one each way through time; and
``gated``, the state-space network whose gate mixes it with the plain method's correction, ``gate * network + (1 - gate) * plain``,
``gate = sigmoid(W [network ; physics])``. A file holds one or several.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.skeleton import Skeleton
from ..learning import model_file, sequence, state_space
from . import plain
from .contacts import decided
from .correction import RATE, Correction, between, numbers_of
from .corruption import KINDS, gaussian
from .inputs import BONES, MOST, PART, PARTS, PHYSICS, SEEN, WIDTHS, Seen, seen

KIND = "repair"
SHIPPED = Path(__file__).resolve().parents[2] / "training_data" / "weights" / "repair.npz"
MISSING = "train them with standalone_trainer.py repair, or name a file with --weights"
DILATIONS = (1, 2, 4, 8, 16, 32)
"""Of the blocks before the whole clip's mean is added, and again of those after it."""
TURNS = 3 * BONES
CHOICES = len(WIDTHS) * PARTS
TRUSTED = 3
"""How far standing feet are believed: their model's velocity, its rest, their height."""
OUTPUTS = TURNS + 3 + 2 + len(KINDS) + TRUSTED + CHOICES
"""Numbers that a network says of a frame: a correction, contacts, what is wrong, how far standing feet are believed, and how much
of each smoothed motion is added."""
QUICK = 4.0
"""[frames] of the Gaussian that parts quick changes of the root's velocity, which the network says itself, from slow ones."""
SCALES = np.r_[np.full(TURNS, 0.05), 0.1, 0.1, 0.03, np.ones(2 + len(KINDS) + TRUSTED + CHOICES)]
"""Sizes of the outputs."""


@dataclass(frozen=True)
class Sizes:
    """How large a network is."""

    width: int
    depth: int = 2
    """Layers each way, of the state-space network."""
    state: int = 16
    """Numbers of state for each channel, likewise."""


SIZES = {"convolution": Sizes(128), "gru": Sizes(96), "gated": Sizes(96)}


@dataclass(frozen=True)
class Said:
    """What a network says of F frames."""

    correction: Correction
    contact: np.ndarray
    """(F, 2) chances that feet stand."""
    kinds: np.ndarray
    """(6) chances of :data:`.corruption.KINDS`."""
    unlike: float = 0.0
    """How far the motion is from what the network learned from: mean square of the standardised numbers, 1 for what is usual."""
    gate: np.ndarray | None = None
    """(F, 72) of the gated network: 1 is the network, 0 the plain method."""


@dataclass(frozen=True)
class Network:
    """One trained network."""

    kind: str
    tensors: Mapping[str, np.ndarray]
    meta: dict[str, Any] = field(default_factory=dict)
    feet: Network | None = None
    """Another one that says when feet stand, instead of this one."""

    def say(self, skeleton: Skeleton, turns: np.ndarray, root: np.ndarray, always: float | None = None) -> Said:
        """What the network says of motion (F frames at 30 a second) of a body with the reference rig's bones.

        ``always`` replaces what the gate of a gated network says.
        """
        sight = seen(skeleton, turns, root)
        said = self._said(skeleton, turns, root, sight, always)
        return (
            said
            if self.feet is None
            else replace(said, contact=self.feet._said(skeleton, turns, root, sight, None).contact)
        )

    def _said(self, skeleton: Skeleton, turns: np.ndarray, root: np.ndarray, sight: Seen, always: float | None) -> Said:
        t = self.tensors
        standard = (sight.numbers - t["mean"]) / t["spread"]
        unlike = float((np.minimum(np.abs(standard[:, CHOICES:]), MOST) ** 2).mean())
        x = sequence.linear(t, "inputs", standard)
        if self.kind == "convolution":
            x = sequence.convolutions(t, "body", x, DILATIONS)
            x = sequence.convolutions(t, "after", x + sequence.linear(t, "whole", x.mean(axis=0)), DILATIONS)
        elif self.kind == "gru":
            x = np.concatenate([sequence.gru(t, "ahead", x)[0], sequence.gru(t, "back", x[::-1])[0][::-1]], axis=-1)
        else:
            ahead, back = state_space.state_spaces(t, "ahead", x), state_space.state_spaces(t, "back", x[::-1])
            x = np.concatenate([_first(ahead), _first(back)[::-1]], axis=-1)
        out = np.asarray(sequence.linear(t, "outputs", x) * SCALES, np.float64)
        choices = out[:, -CHOICES:].reshape(len(root), len(WIDTHS), PARTS)
        numbers, gate = out[:, : TURNS + 3], None
        numbers[:, TURNS : TURNS + 2] -= gaussian(numbers[:, TURNS : TURNS + 2], QUICK)
        numbers += (choices[..., PART] * sight.smooth).sum(axis=1)
        trusted = out[:, -CHOICES - TRUSTED : -CHOICES]
        numbers[:, TURNS : TURNS + 2] += trusted[:, :1] * sight.asked[:, :2] + trusted[:, 1:2] * sight.asked[:, 2:4]
        numbers[:, -1] += trusted[:, 2] * sight.asked[:, 4]
        if self.kind == "gated":
            fixed = plain.analytic(skeleton, turns, root, RATE)
            own = numbers_of(between(turns, root, *fixed))
            gate = sequence.sigmoid(sequence.linear(t, "gate", np.concatenate([x, sight.physics], axis=-1)))
            gate = gate if always is None else np.full_like(gate, always)
            numbers = gate * numbers + (1 - gate) * own
        by = numbers[:, :TURNS].reshape(len(root), BONES, 3)
        correction = Correction(by, numbers[:, TURNS : TURNS + 2], numbers[:, TURNS + 2])
        kinds = sequence.sigmoid(out[:, TURNS + 5 : TURNS + 5 + len(KINDS)].mean(axis=0))
        return Said(correction, sequence.sigmoid(out[:, TURNS + 3 : TURNS + 5]), kinds, unlike, gate)

    def contacts(self, skeleton: Skeleton, turns: np.ndarray, root: np.ndarray) -> np.ndarray:
        """(F, 2) bool: when feet stand."""
        return decided(self.say(skeleton, turns, root).contact, RATE)


def _first(found: Any) -> np.ndarray:
    return np.asarray(found[0] if isinstance(found, tuple) else found)


def save(path: str | os.PathLike[str], networks: Mapping[str, Network], meta: Mapping[str, Any]) -> None:
    """Write networks into one file, whole or not at all; weights in half precision."""
    tensors = {
        f"{name}/{key}": value.astype(np.float16 if value.ndim > 1 else np.float32)
        for name, network in networks.items()
        for key, value in network.tensors.items()
        if key not in fixed()
    }
    model_file.write(path, model_file.Model(KIND, {"networks": list(networks), **meta}, tensors))


def feet_path(path: str | os.PathLike[str]) -> Path:
    """Where the network is, beside another, that says when feet stand."""
    return Path(path).with_name(f"{Path(path).stem}_feet.npz")


def load(path: str | os.PathLike[str] = SHIPPED) -> dict[str, Network]:
    """The networks in a file; FileNotFoundError where there is none, ValueError with the reason where it is none of a repair.

    A convolution is told when feet stand by the GRU in the file beside it, :func:`feet_path`, where there is one.
    """
    found = model_file.read(path, KIND, MISSING)
    about = dict(found.about)
    kinds = about.pop("networks", None)
    name = Path(path).name
    if not isinstance(kinds, list) or not kinds or not set(kinds) <= set(SIZES):
        raise ValueError(f"{name}: expected networks of {', '.join(SIZES)}, got {kinds}")
    try:
        out = {}
        for kind in kinds:
            own = {
                key.split("/", 1)[1]: np.asarray(value, np.float32)
                for key, value in found.tensors.items()
                if key.startswith(f"{kind}/")
            }
            model_file.require_learned(own)
            shapes = {"mean": (SEEN,), "spread": (SEEN,), "outputs.bias": (OUTPUTS,)}
            for key, shape in shapes.items():
                if key not in own or own[key].shape != shape:
                    raise ValueError(f"{kind}: expected {key} {shape}, got {own[key].shape if key in own else 'none'}")
            out[kind] = Network(kind, own, about)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}: {error}") from None
    if "convolution" in out and feet_path(path).exists():
        out["convolution"] = replace(out["convolution"], feet=load(feet_path(path))["gru"])
    return out


def fixed() -> dict[str, np.ndarray]:
    """Tensors that every network has beside what it learns, and that no file holds."""
    return {"scales": SCALES.astype(np.float32), "part": PART}


def in_words(sizes: Mapping[str, Sizes]) -> dict[str, Any]:
    """Sizes as JSON values."""
    return {name: asdict(size) for name, size in sizes.items()}


__all__ = ["DILATIONS", "KIND", "OUTPUTS", "PHYSICS", "SHIPPED", "SIZES", "Network", "Said", "Sizes", "load", "save"]
