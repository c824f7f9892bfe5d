# SPDX-License-Identifier: GPL-3.0-or-later
"""The training task of the IK network: what :mod:`~neural_network.learning.loop` asks for, said for poses and targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from ..core.skeleton import Skeleton
from ..learning import layers, loop
from ..learning.loop import LoopSettings, Position, State
from ..learning.optimizer import AdamSettings
from ..motion.splits import TRAIN, VALIDATION
from . import losses, network, pose_statistics
from .augmentation import draw, limb_groups
from .batches import error_of, mean_pose, without_rotations
from .context import LAYOUTS, Samples, features
from .network import Network
from .settings import Losses, Training

STATISTICS = 32  # batches drawn for the input statistics
VALIDATION_MOST = 2000  # frames looked at in an epoch: enough for a figure, and long data stays quick


class PoseTask:
    """Learning the poses of one character: a :class:`~neural_network.learning.loop.Task`.

    Trains on the frames that ``parts`` (F) marks TRAIN and validates on those marked VALIDATION. Where only the first ``own``
    frames are the character's own, and others' follow, half of what is presented is its own and an epoch is as long as for
    these alone; pose-mix mixes all of them. ``start`` gives the weights to begin with (fine-tuning). Raises ValueError where
    there are too few frames, or where ``start`` has another layout or other layers.
    """

    def __init__(
        self,
        skeleton: Skeleton,
        samples: Samples,
        parts: np.ndarray,
        config: Training,
        start: Network | None = None,
        own: int | None = None,
    ) -> None:
        self.skeleton, self.samples, self.config = skeleton, samples, config
        self.layout = LAYOUTS[config.layout]
        rows, held = np.flatnonzero(parts == TRAIN), np.flatnonzero(parts == VALIDATION)
        if len(rows) < 2 or len(held) < 1:
            raise ValueError(f"expected frames to train and to validate on, got {len(rows)} and {len(held)}")
        self.epoch_most = None if own is None else max(2 * int(np.sum(rows < own)), config.epoch_least)
        self.rows = rows if own is None else balanced(rows, own)
        self.held = held[np.linspace(0, len(held) - 1, min(len(held), VALIDATION_MOST)).round().astype(int)]
        self.net = begin(skeleton, samples, self.rows, config) if start is None else start
        self.widths = network.sizes(skeleton, self.layout, config.hidden)
        given = network.sizes(self.net.skeleton, self.net.layout, self.net.hidden)
        if self.net.layout != self.layout or given != self.widths:
            raise ValueError(
                f"weights to start from: expected layout {self.layout.name} with layers {self.widths}, got "
                f"{self.net.layout.name} with {given}; train with the same --layout and --hidden"
            )
        self.takes = take_count(samples, self.rows)
        self.groups = limb_groups(skeleton)

    def initial(self) -> np.ndarray:
        """(P) the parameters of the network to start from."""
        return self.net.parameters.copy()

    def batches(self, rng: np.random.Generator) -> Sequence[np.ndarray]:
        """The training frames in random order, each presented several times an epoch; a single left-over frame is dropped."""
        times = presentations(self.config, len(self.rows))
        order = np.concatenate([rng.permutation(self.rows) for _ in range(times)])[: self.epoch_most]
        size = self.config.batch_size
        out = [order[at : at + size] for at in range(0, len(order), size)]
        return [rows for rows in out if len(rows) > 1]

    def gradient(
        self, parameters: np.ndarray, rows: np.ndarray, rng: np.random.Generator, position: Position, into: np.ndarray
    ) -> float | None:
        """Augment the frames ``rows`` and write the gradient of all losses; returns the mean effector distance [m]."""
        stack, gradients = (layers.stack(flat, self.widths) for flat in (parameters, into))
        config, unknown = self.config, self.layout.rotation_columns(self.skeleton)
        may_lack = config.without_rotations > 0 and len(unknown) > 0 and not self.layout.mask
        blind = may_lack and rng.random() < config.without_rotations
        if blind:
            config = replace(
                config,
                mix=min(config.mix, config.mix_without),
                joint_noise=min(config.joint_noise, config.noise_without),
            )
        targets, truth = draw(self.skeleton, self.layout, self.samples, self.rows, rows, config, self.groups, rng)
        asked = without_rotations(self.skeleton, targets) if blind else targets
        x = (features(self.layout, self.skeleton, asked) - self.net.mean) / self.net.deviation
        if blind:
            x[:, unknown] = 0
        activations = layers.forward(stack, x)
        weights = self._scheduled(position)
        values, out = losses.total(self.layout, self.skeleton, activations[-1], targets, truth, weights)
        layers.backward(stack, activations, np.ascontiguousarray(out), gradients)
        return values["fk"] * self.skeleton.leg_length if "fk" in values else None

    def validate(self, parameters: np.ndarray) -> float:
        """[m] mean effector distance of the network's poses on the validation part, without refinement."""
        return error_of(replace(self.net, parameters=parameters), self.samples, self.held)

    def describe(self) -> dict[str, Any]:
        """The configuration; whoever knows the data adds its content hash and split."""
        return {"config": asdict(self.config)}

    def network(self, state: State) -> Network:
        """The best network of a training whose last state is ``state``, with the statistics of its poses: what was validated."""
        net = replace(self.net, skeleton=self.skeleton, parameters=state.best.copy(), meta={}, density=None)
        if self.layout.free_root:  # the Hips are not known to it, and its poses are told from the Hips on
            return net
        return replace(net, density=pose_statistics.fit(net, self.samples, self.rows, self.held, self.takes))

    def _scheduled(self, position: Position) -> Losses:
        """The losses of one batch; all of them but in the older schedule."""
        config, weights = self.config, self.config.losses
        off = False
        if config.fk_off_below:
            measured = [value for value, _ in position.history if value > 0]  # epochs without the FK term read 0
            off = bool(measured) and measured[-1] ** 2 < config.fk_off_below
        if off or position.step % config.fk_every:
            weights = replace(weights, fk=0.0)
        if position.step % config.contact_every:
            weights = replace(weights, contact=0.0)
        return weights


def loop_settings(config: Training) -> LoopSettings:
    """What the loop needs of the trainer's settings."""
    return LoopSettings(
        epochs=config.epochs,
        lr=config.lr,
        lr_end=config.lr_end,
        patience=config.patience,
        time_limit=config.time_limit,
        seed=config.seed,
        adam=AdamSettings(config.beta1, config.beta2, config.epsilon, average=config.average),
    )


def fit(
    skeleton: Skeleton,
    samples: Samples,
    parts: np.ndarray,
    config: Training,
    start: Network | None = None,
    own: int | None = None,
) -> Network:
    """Train to the end and return the best network; arguments as for :class:`PoseTask`."""
    task = PoseTask(skeleton, samples, parts, config, start, own)
    return task.network(loop.run(task, loop_settings(config)).state)


def take_count(samples: Samples, rows: np.ndarray) -> int:
    """How many takes the frames ``rows`` are from: the phase starts again with each."""
    take = np.cumsum(np.diff(samples.phase, prepend=0) < 0)
    return len(np.unique(take[rows]))


def presentations(config: Training, frames: int) -> int:
    """How often each of ``frames`` training poses is presented in an epoch."""
    return config.augment or max(2, -(-config.epoch_least // frames))


def balanced(rows: np.ndarray, own: int) -> np.ndarray:
    """``rows`` with those below ``own`` repeated until they are about half of all, so that a few own frames are not drowned."""
    mine = rows < own
    times = max(1, round(int(np.sum(~mine)) / max(1, int(np.sum(mine)))))
    return np.repeat(rows, np.where(mine, times, 1))


def adapted(start: Network, skeleton: Skeleton, samples: Samples, rows: np.ndarray, config: Training) -> Network:
    """``start`` on another body of its tree: the same weights, inputs standardised as this body's frames ``rows`` have them.

    A longer arm then reads as a usual one, which is what a network of rotations can go on with. A network that is told of the
    body's places knows better, and keeps its own.
    """
    if start.layout.places:
        return replace(start, skeleton=skeleton)
    fresh = begin(skeleton, samples, rows, replace(config, layout=start.layout.name, hidden=start.hidden))
    return replace(start, skeleton=skeleton, mean=fresh.mean, deviation=fresh.deviation)


def begin(skeleton: Skeleton, samples: Samples, rows: np.ndarray, config: Training) -> Network:
    """An untrained network with the input statistics of the (augmented) training frames ``rows``."""
    layout = LAYOUTS[config.layout]
    rng = np.random.default_rng([config.seed, 0])
    groups = limb_groups(skeleton)
    inputs = []
    for _ in range(STATISTICS):
        picked = rows[rng.integers(0, len(rows), config.batch_size)]
        targets, _ = draw(skeleton, layout, samples, rows, picked, config, groups, rng)
        inputs.append(features(layout, skeleton, targets))
    mean_output = np.zeros(layout.output_count(skeleton))
    mean_output[: 3 * skeleton.count] = mean_pose(samples, rows).ravel()
    mean_output[:3] = 0
    return network.init(skeleton, layout, config.hidden, np.concatenate(inputs), mean_output, rng)
