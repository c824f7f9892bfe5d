# SPDX-License-Identifier: GPL-3.0-or-later
"""Symmetric systems whose blocks reach two frames: sums of squares over a clip, and their solution by block Cholesky."""

from __future__ import annotations

import numpy as np


class Normal:
    """The normal equations of a sum of squares over F frames of D numbers, where no term reaches farther than two frames."""

    def __init__(self, frames: int, size: int) -> None:
        self.slope = np.zeros((frames, size))
        """(F, D) first derivative."""
        self.blocks = tuple(np.zeros((max(frames - k, 0), size, size)) for k in range(3))
        """(F - k, D, D) second derivatives between a frame and the one k later."""

    def add(self, rows: slice, slopes: tuple[np.ndarray, ...], weight: np.ndarray, pull: np.ndarray) -> None:
        """Add terms that depend on one, two or three neighbouring frames.

        Args:
            rows: the first of these frames for each term.
            slopes: for each of the frames (N, R, D), the derivative of a term's R numbers.
            weight: (N, R, R) second derivative of the value with respect to them.
            pull: (N, R) first derivative.
        """
        first, last = rows.start, rows.stop
        weighted = [weight @ s for s in slopes]
        for a, own in enumerate(slopes):
            turned = np.swapaxes(own, 1, 2)
            self.slope[first + a : last + a] += (turned @ pull[..., None])[..., 0]
            for b in range(a, len(slopes)):
                self.blocks[b - a][first + a : last + a] += turned @ weighted[b]

    def add_differences(self, values: np.ndarray, weight: np.ndarray, order: int) -> None:
        """Add half the weighted squares of differences of an ``order`` (0, 1 or 2) of ``values`` (F, D), the unknowns themselves.

        ``weight`` (D) each unknown's, or (F - order, D).
        """
        kernel = ([1.0], [-1.0, 1.0], [1.0, -2.0, 1.0])[order]
        count = len(values) - order
        if count < 1:
            return
        off = np.zeros((count, values.shape[1]))
        for i, k in enumerate(kernel):
            off += k * values[i : i + count]
        each = np.broadcast_to(weight, off.shape)
        diagonal = np.arange(values.shape[1])
        for a, ka in enumerate(kernel):
            self.slope[a : a + count] += ka * each * off
            for b in range(a, len(kernel)):
                self.blocks[b - a][a : a + count, diagonal, diagonal] += ka * kernel[b] * each

    def step(self) -> np.ndarray:
        """(F, D) the change at which the quadratic value is least. Raises LinAlgError where it has no least value."""
        return -solve(self.blocks, self.slope)


def solve(blocks: tuple[np.ndarray, ...], right: np.ndarray) -> np.ndarray:
    """Solution (F, D) of a symmetric positive definite system with blocks (F - k, D, D) between frames k = 0, 1, 2 apart.

    Two frames make one block of a block tridiagonal system, which is factorised from the first to the last (Golub and Van Loan,
    section 4.5). Raises LinAlgError where the system is not positive definite.
    """
    own, one, two = blocks
    frames, size = right.shape
    pairs = (frames + 1) // 2
    wide = 2 * size
    diagonal, below = np.zeros((pairs, wide, wide)), np.zeros((max(pairs - 1, 0), wide, wide))
    values = np.zeros((pairs, wide))
    diagonal[:, :size, :size] = own[0::2]
    second = frames // 2
    diagonal[:second, size:, size:] = own[1::2]
    diagonal[:second, :size, size:] = one[0::2][:second]
    diagonal[:second, size:, :size] = np.swapaxes(one[0::2][:second], 1, 2)
    if second < pairs:  # an odd frame stands alone
        diagonal[-1, size:, size:] = np.eye(size)
    values[:, :size] = right[0::2]
    values[:second, size:] = right[1::2]
    ahead = two[0::2]  # (pair, next pair) first to first
    below[: len(ahead), :size, :size] = np.swapaxes(ahead, 1, 2)
    cross = one[1::2]  # second to the next pair's first
    below[: len(cross), :size, size:] = np.swapaxes(cross, 1, 2)
    later = two[1::2]  # second to the next pair's second
    below[: len(later), size:, size:] = np.swapaxes(later, 1, 2)
    factors: list[np.ndarray] = []
    half: list[np.ndarray] = []
    known: list[np.ndarray] = []
    for i in range(pairs):
        block, value = diagonal[i], values[i]
        if i:
            block = block - half[-1].T @ half[-1]
            value = value - half[-1].T @ known[-1]
        factor = np.linalg.cholesky(block)
        both = np.concatenate([below[i].T, value[:, None]], axis=1) if i < pairs - 1 else value[:, None]
        found = np.linalg.solve(factor, both)
        factors.append(factor)
        half.append(found[:, :-1])
        known.append(found[:, -1])
    out = np.zeros((pairs, wide))
    for i in range(pairs - 1, -1, -1):
        later_part = half[i] @ out[i + 1] if i < pairs - 1 else 0.0
        out[i] = np.linalg.solve(factors[i].T, known[i] - later_part)
    return out.reshape(-1, size)[:frames]
