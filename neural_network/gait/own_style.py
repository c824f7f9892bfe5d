# SPDX-License-Identifier: GPL-3.0-or-later
"""A character's own way to walk: what its walks have that the sliders do not say, learned from its own actions.

The walks are matched first; what is left between the matched cycle and theirs, on average, is the style. Added to what the
network says it gives the same walk at other speeds and sliders; exact feet do the rest.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from ..core.skeleton import Skeleton
from ..learning import model_file
from ..learning.model_file import Model
from . import curves, matching, representation
from .cycles import Cycle
from .network import Gait
from .representation import CYCLE, ROOT, SIZE

KIND = "gait_style"
HARMONICS = 6


@dataclass(frozen=True)
class OwnStyle:
    """What a character's walks have of their own."""

    coefficients: np.ndarray
    """(2 HARMONICS + 1, 101) Fourier coefficients along the phase, added to the 101 numbers."""
    values: np.ndarray
    """(P) parameters of the walks."""
    cycles: int
    """How many were learned from."""
    name: str = "own"


@dataclass(frozen=True)
class Styled:
    """A source of poses (:class:`.walks.Source`) with so much of a character's own style."""

    gait: Gait
    style: OwnStyle
    weight: float = 1.0

    @property
    def trembles(self) -> bool:
        """See :class:`.walks.Source`."""
        return self.gait.trembles

    def numbers(self, values: np.ndarray, phase: np.ndarray) -> np.ndarray:
        """See :class:`.walks.Source`."""
        more = curves.basis(np.mod(phase, 1), HARMONICS) @ self.style.coefficients
        return np.asarray(self.gait.numbers(values, phase) + self.weight * more)


def learn(gait: Gait, rig: Skeleton, found: list[Cycle], name: str = "own") -> OwnStyle:
    """The style of captured or keyed cycles on a rig with the reference rig's bones; ValueError where there are none."""
    match = matching.match(gait, rig, found)
    target = np.mean([matching.numbers_of(gait, rig, cycle) for cycle in found], axis=0)
    off = target - gait.numbers(match.values, np.arange(CYCLE) / CYCLE)
    off[:, ROOT] = 0.0
    off[:, :6] *= 0.5
    return OwnStyle(curves.coefficients(off, HARMONICS), match.values, len(found), name)


def error_of(styled: Styled, rig: Skeleton, cycle: Cycle) -> float:
    """[deg] mean angle of all joints but the Hips between a styled walk with the style's own parameters and a cycle."""
    said = representation.decode(rig, styled.numbers(styled.style.values, np.arange(CYCLE) / CYCLE)).turns
    return matching.difference(said, matching.seen(styled.gait, rig, cycle))


def save(path: str | os.PathLike[str], style: OwnStyle) -> None:
    """Write a style as a model file, whole or not at all."""
    tensors = {"coefficients": style.coefficients.astype(np.float32), "values": style.values.astype(np.float32)}
    model_file.write(path, Model(KIND, {"name": style.name, "cycles": style.cycles}, tensors))


def load(path: str | os.PathLike[str]) -> OwnStyle:
    """Read a style; ValueError with the reason where it is none."""
    found = model_file.read(path, KIND, "press Learn from my Walks first")
    tensors = dict(found.tensors)
    shape = (2 * HARMONICS + 1, SIZE)
    if "coefficients" not in tensors or "values" not in tensors or tensors["coefficients"].shape != shape:
        raise ValueError(f"expected a gait style of {shape}; learn it again")
    model_file.require_learned(tensors)
    coefficients, values = (np.asarray(tensors[key], np.float64) for key in ("coefficients", "values"))
    return OwnStyle(coefficients, values, int(found.about.get("cycles", 0)), str(found.about.get("name", "own")))
