# SPDX-License-Identifier: GPL-3.0-or-later
"""Batches to learn from, made by processes of their own while a training runs."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Sequence
from multiprocessing.pool import AsyncResult
from typing import Any

import numpy as np

from ..core.skeleton import Skeleton
from . import draws

_shared: dict[str, Any] = {}


def _begin(skeleton: Skeleton, takes: Sequence[draws.Take], gated: bool) -> None:
    _shared.update(skeleton=skeleton, takes=takes, gated=gated)


def _made(count: int, seed: tuple[int, int]) -> draws.Batch:
    return draws.batch(
        _shared["skeleton"], _shared["takes"], count, np.random.default_rng(seed), gated=_shared["gated"]
    )


class Batches:
    """Batches by their number, made ahead by ``jobs`` processes."""

    def __init__(
        self,
        skeleton: Skeleton,
        takes: Sequence[draws.Take],
        count: int,
        seed: int,
        jobs: int,
        gated: bool = False,
        ahead: int = 3,
    ) -> None:
        self.count, self.seed, self.ahead = count, seed, ahead * jobs
        self.waiting: deque[tuple[int, AsyncResult[draws.Batch]]] = deque()
        self.pool = multiprocessing.get_context("spawn").Pool(jobs, _begin, (skeleton, takes, gated))
        self._submit(0)

    def at(self, step: int) -> draws.Batch:
        """The batch of a step."""
        while self.waiting and self.waiting[0][0] != step:
            self.waiting.popleft()
        self._submit(step)
        return self.waiting.popleft()[1].get()

    def _submit(self, step: int) -> None:
        following = self.waiting[-1][0] + 1 if self.waiting else step
        while len(self.waiting) < self.ahead:
            self.waiting.append((following, self.pool.apply_async(_made, (self.count, (self.seed, following)))))
            following += 1

    def close(self) -> None:
        """End the processes."""
        self.pool.terminate()
        self.pool.join()
