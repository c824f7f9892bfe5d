# SPDX-License-Identifier: GPL-3.0-or-later
"""The pose that is likely before the targets are looked at, and how far from it a pose may be in which direction.

The mean of the poses, the network's answer and, where several hypotheses are asked for, the mean of near training frames are
fused as Gaussians (Bishop, "Pattern Recognition and Machine Learning", 2006, section 2.3.3). All that does not depend on the
targets is prepared once. :mod:`.likely_steps` meets the targets in this metric. D = 3 (J - 1) numbers tell a pose, see
:mod:`.pose_density`.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..core import forward_kinematics as fk
from ..core import quick_rotations as quick
from ..core import rotations
from ..core.skeleton import Skeleton
from .pose_density import PoseDensity, deviations

TRUST = 0.3  # weight of the network's answer: its errors are not independent of the mean's
TRUST_EACH = 0.4  # weight of the network's answer and of the near frames where both count
BLOCK = 6  # kept frames in a row of which one at most is a hypothesis: neighbours say the same
TURN_WEIGHT = 0.2  # [leg lengths / rad] how much a turn counts in the distance of frames
UP_WEIGHT = 0.3  # [leg lengths] how much the direction of up in the Hips counts
SEVERAL = 8  # hypotheses where takes are few, and whose errors are measured in training
FEW_TAKES = 16  # fewer takes than this are few
FEW = 4  # hypotheses that near frames stand for where the network proposes nothing
AROUND = 8  # frames around a pose for each hypothesis, whose covariance says how poses like it differ
NARROW = 0.5  # share of the median squared distance at which their weight falls by 1 / e
WIDER = 0.15  # share of the covariance of all poses that is added to theirs
SHARPNESS = 0.01  # [leg lengths^2] distance beyond the nearest frame's at which a frame loses weight, at least


class Prior:
    """A density prepared for solving on one rig.

    Attributes:
        mean: (J, 3, 3) the mean pose.
        unmean: (J - 1, 4, 4) that take quaternions of the bones but the root, as columns, to their deviations from it.
        metric: (2, D, D) covariance of the pose about the likely one, without and with all rotations of the targets given.
        scale: (2) [rad^2] mean variance of each.
        hypotheses: near frames that propose beside the network unless a caller says otherwise: several where the network has seen
            so few takes that another action is soon unlike all of them.
    """

    def __init__(self, skeleton: Skeleton, density: PoseDensity) -> None:
        """Prepare ``density`` for ``skeleton``, which may have other proportions than the body it was learned from."""
        self._skeleton, self._density = skeleton, density
        self.hypotheses = SEVERAL if density.takes < FEW_TAKES else 1
        self.mean = rotations.matrix_from_axis_angle(density.mean)
        centre = rotations.quaternion_from_axis_angle(density.mean[1:]) * quick.CONJUGATE
        self.unmean = np.stack([quick.left_product(q) for q in centre])
        precision, network = np.linalg.inv(density.covariance), TRUST * np.linalg.inv(density.network_error)
        self.metric = np.linalg.inv(precision + network)
        self.scale = np.trace(self.metric, axis1=1, axis2=2) / self.metric.shape[1]
        self._away = np.eye(self.metric.shape[1]) - network @ self.metric

    def unlikely(self, answers: np.ndarray, given: int) -> np.ndarray:
        """(..., D) how far the network's answers, deviations (..., D), are from the likely pose; ``given``: as in ``metric``."""
        return answers @ self._away[given]

    @cached_property
    def frames(self) -> NearFrames | None:
        """The near frames, None where the density holds none."""
        return NearFrames(self._skeleton, self._density) if len(self._density.frames) else None

    @cached_property
    def _measured(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Covariance (2, D, D) of what the network and near frames say together, and by what their deviations are multiplied."""
        network, near = (np.linalg.inv(e) for e in (self._density.network_error, self._density.frames_error))
        together = np.linalg.inv(TRUST_EACH * (network + near))
        return together, TRUST_EACH * network @ together, TRUST_EACH * near @ together

    def together(
        self, answers: np.ndarray, key: np.ndarray, known: np.ndarray, given: int, count: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same for answers (N, D) and ``count`` near frames of each pose: how far it is off (N, D), and the metric (N, D, D).

        ``key`` and ``known`` (N, K) are those of :func:`keys` and :func:`known_keys`, ``given`` as in ``metric``. The
        frames around a pose say how poses like it differ: theirs is the covariance that is fused.
        """
        assert self.frames is not None
        near, local, spread = self.frames.around(key, known, count)
        spread += WIDER * self._density.covariance
        together, of_network, of_near = self._measured
        said = answers @ of_network[given] + near @ of_near[given]
        gain = np.linalg.solve(spread + together[given], spread)
        likely = local + ((said - local)[:, None] @ gain)[:, 0]
        return answers - likely, spread - spread @ gain

    def around(self, key: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The likely pose and its covariance without the network: deviation (N, D) and (N, D, D), from near frames where there are some."""
        if self.frames is None:
            size = self._density.covariance.shape[0]
            return np.zeros((len(key), size)), np.broadcast_to(self._density.covariance, (len(key), size, size))
        _, centre, spread = self.frames.around(key, known, FEW)
        return centre, spread + WIDER * self._density.covariance


class NearFrames:
    """Training frames, to look up those whose effectors are nearest to the targets."""

    def __init__(self, skeleton: Skeleton, density: PoseDensity) -> None:
        turns = rotations.matrix_from_axis_angle(density.frames)
        self.deviations = deviations(turns, rotations.matrix_from_axis_angle(density.mean))
        components = np.ascontiguousarray(turns.transpose(2, 3, 1, 0))
        turned, heads = fk.forward_matrices(skeleton, components, skeleton.offsets / skeleton.leg_length)
        bones = list(skeleton.effectors)
        self._key = keys(heads[:, bones], turned[:, :, bones], turned[:, :, 0]).T.copy()
        self._square = self._key**2
        self._starts = np.arange(0, len(turns), BLOCK)

    def mean_of(self, key: np.ndarray, known: np.ndarray, count: int) -> np.ndarray:
        """(N, D) the deviation of the mean of the ``count`` nearest frames, the nearer ones weighing more.

        ``key`` (N, K) is that of :func:`keys`, of which the numbers count where ``known`` (N, K) is 1 and not where it is 0.
        """
        return np.stack([self._nearest(apart, count) for apart in self._apart(key, known)])

    def around(self, key: np.ndarray, known: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What :meth:`mean_of` gives, and mean (N, D) and covariance (N, D, D) of the frames around: AROUND for each of ``count``."""
        near, local, spread = [], [], []
        for apart in self._apart(key, known):
            near.append(self._nearest(apart, count))
            most = min(AROUND * count, len(apart))
            rows = np.argpartition(apart, most - 1)[:most]
            far = apart[rows]
            weight = np.exp(-far / (NARROW * float(np.median(far)) + 1e-9))
            weight /= weight.sum()
            there = self.deviations[rows]
            centre = np.dot(weight, there)
            there = (there - centre) * np.sqrt(weight)[:, None]
            local.append(centre)
            spread.append(np.dot(there.T, there))
        return np.stack(near), np.stack(local), np.stack(spread)

    def _apart(self, key: np.ndarray, known: np.ndarray) -> np.ndarray:
        """(N, F) squared distances of the frames."""
        key = key * known
        return np.maximum(known @ self._square - 2 * key @ self._key + np.sum(key * key, axis=1)[:, None], 0)

    def _nearest(self, apart: np.ndarray, count: int) -> np.ndarray:
        """(D) weighted mean of the ``count`` nearest frames, of each block one at most, by squared distances (F)."""
        least = np.minimum.reduceat(apart, self._starts)
        count = min(count, len(least))
        blocks = np.argpartition(least, count - 1)[:count]
        rows = [s + int(np.argmin(apart[s : s + BLOCK])) for s in self._starts[blocks].tolist()]
        far = apart[rows]
        weight = np.exp(-(far - far.min()) / (far.min() + SHARPNESS))
        return np.asarray(np.dot(weight / weight.sum(), self.deviations[rows]))


def keys(positions: np.ndarray, turned: np.ndarray | None, root: np.ndarray) -> np.ndarray:
    """(N, K) what frames are compared by: positions (3, E, N), rotations (3, 3, E, N) and up, in the axes of the Hips ``root`` (3, 3, N).

    Rotations that are None are zero, and must not count as known.
    """
    count = positions.shape[-1]
    places = np.einsum("bcn,ben->nec", root, positions).reshape(count, -1)
    turns = np.zeros_like(places)
    if turned is not None:
        seen = np.einsum("bcn,bden->cden", root, turned)
        turns = TURN_WEIGHT * rotations.axis_angle_components(seen).transpose(2, 1, 0).reshape(count, -1)
    return np.concatenate([places, turns, UP_WEIGHT * root[2].T], axis=1)


def known_keys(given: np.ndarray) -> np.ndarray:
    """(N, K) 0/1: which numbers of :func:`keys` are known where positions and rotations are ``given`` (2, E, N) 0/1."""
    known = np.repeat(given.transpose(2, 0, 1).reshape(given.shape[2], -1), 3, axis=1)
    return np.concatenate([known, np.ones((len(known), 3), known.dtype)], axis=1)


def key_of_one(positions: np.ndarray, target_rotations: np.ndarray | None, hips: np.ndarray) -> np.ndarray:
    """(1, K) as :func:`keys` for one pose: ``positions`` (3, E), ``target_rotations`` (E, 3, 3), ``hips`` (3, 3)."""
    places = np.dot(hips.T, positions).T.reshape(-1)
    turns = np.zeros(len(places))
    if target_rotations is not None:
        turns = TURN_WEIGHT * quick.axis_angle_from_matrix(np.matmul(hips.T, target_rotations)).reshape(-1)
    return np.concatenate([places, turns, UP_WEIGHT * hips[2]])[None]
