# SPDX-License-Identifier: GPL-3.0-or-later
"""The optimiser: Adam with decoupled weight decay, gradient clipping and a running average of the weights; schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class AdamSettings:
    """The numbers of :class:`Adam`."""

    beta1: float = 0.9
    """Decay of the running mean of the gradient."""
    beta2: float = 0.999
    """Decay of the running mean of its square."""
    epsilon: float = 1e-8
    """Added to the root of the mean square."""
    decay: float = 0.0
    """Weight decay per unit of step size, decoupled from the gradient (Loshchilov & Hutter 2019, arXiv 1711.05101)."""
    clip: float = 0.0
    """Longest gradient (Euclidean norm over all parameters); a longer one is scaled down to it. 0: no limit."""
    average: float = 0.0
    """Decay of the running average of the weights; it starts faster, so that the first weights are soon forgotten. 0: none."""


class Adam:
    """Adam (Kingma & Ba 2015, arXiv 1412.6980) over one flat parameter vector, changed in place.

    The state of a training: ``first`` and ``second`` (P) are the running means, ``average`` (P) the averaged weights,
    ``step`` counts the steps made. Save and restore these four to continue to the very same bytes.
    """

    def __init__(
        self,
        parameters: np.ndarray,
        settings: AdamSettings = AdamSettings(),
        decayed: np.ndarray | None = None,
        memory: Sequence[np.ndarray] | None = None,
    ):
        """``parameters`` (P) as training begins; ``decayed`` (P) 0/1 marks those that decay, all where absent.

        ``memory``: five arrays (P) of zeros to use, which are made where absent.
        """
        self.settings = settings
        self.decayed = decayed
        self.first, self.second, self._scratch, self._scratch2, self.average = memory or (
            np.zeros_like(parameters) for _ in range(5)
        )
        self.average[:] = parameters
        self.step = 0

    def update(self, parameters: np.ndarray, gradient: np.ndarray, rate: float) -> None:
        """Make one step of size ``rate`` along ``gradient`` (P), changing ``parameters`` (P) and the running means in place.

        The bias correction is folded into the step size. ``gradient`` is not changed.
        """
        s, scratch, scratch2 = self.settings, self._scratch, self._scratch2
        self.step += 1
        if s.clip:
            norm = float(np.sqrt(np.dot(gradient, gradient)))
            if norm > s.clip:
                gradient = gradient * gradient.dtype.type(s.clip / norm)
        self.first *= s.beta1
        np.multiply(gradient, 1 - s.beta1, out=scratch)
        self.first += scratch
        self.second *= s.beta2
        np.multiply(gradient, gradient, out=scratch)
        scratch *= 1 - s.beta2
        self.second += scratch
        np.sqrt(self.second, out=scratch)
        correction = float(np.sqrt(1 - s.beta2**self.step))
        scratch += s.epsilon * correction
        np.divide(self.first, scratch, out=scratch2)
        scratch2 *= rate * correction / (1 - s.beta1**self.step)
        if s.decay:
            np.multiply(parameters, rate * s.decay, out=scratch)
            if self.decayed is not None:
                scratch *= self.decayed
            scratch2 += scratch
        parameters -= scratch2
        if s.average:
            decay = min(s.average, self.step / (self.step + 10))
            self.average *= decay
            np.multiply(parameters, 1 - decay, out=scratch)
            self.average += scratch


def cosine(share: float, end: float) -> float:
    """Factor of the step size after ``share`` (0 to 1) of a training: from 1 down to ``end`` along half a cosine."""
    return float(end + (1 - end) * 0.5 * (1 + np.cos(np.pi * min(1.0, share))))


def inverse_time(step: int, half: float) -> float:
    """Factor of the step size after ``step`` steps of an endless training: 1 / (1 + step / half)."""
    return 1 / (1 + step / half)
