# SPDX-License-Identifier: GPL-3.0-or-later
"""How likely a character's poses are: what the exact steps know beside the targets.

A pose is told by its deviation from the mean pose: for each bone but the root the rotation vector log(M^T R) of its rotation R
relative to the parent, M its mean [rad, core axes as the bone carries them], D = 3 (J - 1) numbers. Poses count as normally
distributed about the mean with a covariance, and the network's answer as a measurement of the pose whose errors have a
covariance too, found on motion that it was not trained on. Where several hypotheses are asked for, the nearest frames of the
training data are another such measurement. All of them together say which pose is likely before the targets are looked at, and
how far from it a pose may be in which direction (Bayesian fusion of Gaussians; Bishop, "Pattern Recognition and Machine
Learning", 2006, section 2.3.3). :mod:`.likely_steps` then meets the targets in that metric.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..core import rotations
from ..core.skeleton import Skeleton

_LARGEST = 1e3  # [rad, rad^2] larger numbers are no rotations
_LEAST = 1e-7  # [rad^2] a variance below this is none, and could not be divided by


@dataclass(frozen=True)
class PoseDensity:
    """Statistics of one character's poses, stored with its network; J bones, D = 3 (J - 1)."""

    mean: np.ndarray
    """(J, 3) mean core rotations [rad]; the root's is zero."""
    covariance: np.ndarray
    """(D, D) [rad^2] of the deviations."""
    network_error: np.ndarray
    """(2, D, D) [rad^2] second moments of the network's errors where rotations of the targets are not given, and where they are."""
    frames: np.ndarray
    """(F, J, 3) core rotations [rad] of training frames in their order; the root's without heading. F may be 0."""
    frames_error: np.ndarray
    """(2, D, D) [rad^2] second moments of the errors of the mean of eight near frames."""
    takes: int = 1
    """How many takes the training frames come from."""
    changes: np.ndarray | None = None
    """(3 J + 3, 3 J + 3) second moments of the character's pose changes (see :mod:`.density`), where they are known."""


def deviations(turns: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """(N, D) deviations of ``turns`` (N, J, 3, 3), rotations relative to the parent, from the matrices ``mean`` (J, 3, 3)."""
    apart = np.matmul(mean[1:].transpose(0, 2, 1), turns[:, 1:])
    return rotations.axis_angle_from_matrix(apart).reshape(len(turns), -1)


def to_tensors(density: PoseDensity) -> dict[str, np.ndarray]:
    """The tensors that a model file holds of a density."""
    return {
        "pose_mean": density.mean.astype("<f4"),
        "pose_covariance": density.covariance.astype("<f4"),
        "pose_network_error": density.network_error.astype("<f4"),
        "pose_frames": density.frames.astype("<f2"),
        "pose_frames_error": density.frames_error.astype("<f4"),
        "pose_takes": np.array([density.takes], "<i4"),
        **({} if density.changes is None else {"pose_changes": density.changes.astype("<f4")}),
    }


def from_tensors(tensors: Mapping[str, np.ndarray], skeleton: Skeleton) -> PoseDensity | None:
    """The density of a model file, None where it holds none.

    Raises ValueError for tensors that do not fit ``skeleton`` or are no covariances, and KeyError for missing ones.
    """
    if "pose_mean" not in tensors:
        return None
    bones, size = skeleton.count, 3 * skeleton.count - 3
    shapes: dict[str, tuple[int, ...]] = {
        "pose_mean": (bones, 3),
        "pose_covariance": (size, size),
        "pose_network_error": (2, size, size),
        "pose_frames": (len(tensors["pose_frames"]), bones, 3),
        "pose_frames_error": (2, size, size),
    }
    if "pose_changes" in tensors:
        shapes["pose_changes"] = (size + 6, size + 6)
    found = {}
    for name, shape in shapes.items():
        if tensors[name].shape != shape:
            raise ValueError(f"{name}: expected {shape}, got {tensors[name].shape}")
        found[name] = np.asarray(tensors[name], np.float64)
        if not np.isfinite(found[name]).all() or np.abs(found[name]).max(initial=0) > _LARGEST:
            raise ValueError(f"{name}: expected finite rotations and covariances of rotations")
    for name in ("pose_covariance", "pose_network_error", "pose_frames_error"):
        if name == "pose_frames_error" and not len(found["pose_frames"]):
            continue
        matrix = found[name]
        if not is_covariance(matrix) or np.linalg.eigvalsh(matrix).min() < _LEAST:
            raise ValueError(f"{name}: is no covariance: not symmetric, or not positive")
    if "pose_changes" in found and not is_covariance(found["pose_changes"]):
        raise ValueError("pose_changes: is no covariance: not symmetric, or negative somewhere")
    takes = np.asarray(tensors["pose_takes"])
    if takes.shape != (1,) or takes.dtype.kind not in "iu" or takes[0] < 1:
        raise ValueError(f"pose_takes: expected how many takes there were, got {takes}")
    return PoseDensity(**{name.removeprefix("pose_"): array for name, array in found.items()}, takes=int(takes[0]))


def is_covariance(matrix: np.ndarray) -> bool:
    """Whether matrices (..., D, D) are symmetric and nowhere negative, but for rounding."""
    return bool(
        np.allclose(matrix, matrix.swapaxes(-1, -2), atol=1e-6) and np.linalg.eigvalsh(matrix).min(initial=0) >= -1e-6
    )
