# SPDX-License-Identifier: GPL-3.0-or-later
"""What a predictor learns in PyTorch: the next states of windows, one alone or many, each from those that it said before."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ..core import metrics
from ..core.skeleton import Skeleton
from ..learning.encoder import Design
from ..learning.steps import StepSettings
from ..motion.states import Layout
from .gaps import HISTORY
from .predictor import AHEAD
from .step_windows import ACTIVITIES, Learning, Windows, measures
from .torch_predictor import Posed, Steps

JUDGED = 512  # windows that validate
SHORTER = 0.25  # share of batches that go less far ahead than their stage of the training


class StepsTask:
    """See :class:`..learning.torch_training.TorchTask`."""

    def __init__(
        self,
        mode: str,
        layout: Layout,
        design: Design,
        body: Skeleton,
        known: Windows,
        held: Windows,
        learning: Learning,
        settings: StepSettings,
        dropout: float,
    ) -> None:
        self.mode, self.layout, self.design, self.learning = mode, layout, design, learning
        self.known, self.held, self.settings, self.dropout = known, held, settings, dropout
        self.posed, self.leg = Posed(layout, body), body.leg_length
        self.measured = measures(layout.name, known)
        self._moved: dict[str, tuple[Tensor, Tensor]] = {}
        self._begins: dict[tuple[str, int, int], Tensor] = {}
        self._began: float | None = None

    def module(self) -> nn.Module:
        """The network."""
        return Steps(self.mode, self.layout, self.design, *self.measured, self.dropout)

    def _on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """All states, and the windows that validate, on a device."""
        key = str(device)
        if key not in self._moved:
            self.posed.to(device)
            begins = self.held.at_least(HISTORY + AHEAD)
            if not len(begins):
                raise ValueError(f"expected a take of {HISTORY + AHEAD} frames to validate on, got none")
            some = np.linspace(0, len(begins) - 1, min(JUDGED, len(begins))).astype(int)
            judged = self.held.rows[begins[some][:, None] + np.arange(HISTORY + AHEAD)]
            self._moved[key] = (
                torch.as_tensor(self.known.rows, device=device),
                torch.as_tensor(judged, device=device),
            )
        return self._moved[key]

    def _long(self, frames: int, stage: int, device: torch.device) -> Tensor:
        """The begins of windows of so many frames, of a stage of the curriculum."""
        key = (str(device), frames, stage)
        if key not in self._begins:
            found = self.known.at_least(frames, stage)
            found = found if len(found) else self.known.at_least(frames)
            if not len(found):
                raise ValueError(
                    f"expected a take of {frames} frames, got none; add motion or lower --horizons, --seq_len"
                )
            self._begins[key] = torch.as_tensor(found, device=device)
        return self._begins[key]

    def horizon(self, step: int) -> int:
        """Frames ahead in a step: 1 is the next frame alone."""
        learning = self.learning
        if learning.rollouts == "off":
            return 1
        if learning.rollout_share < 1 and np.random.default_rng([step, 7]).random() >= learning.rollout_share:
            return 1
        stage = self._part(step, len(learning.horizons))
        rng = np.random.default_rng([step, 11])
        if rng.random() < SHORTER:  # takes that are shorter are not forgotten
            stage = int(rng.integers(0, stage + 1))
        return learning.horizons[stage]

    def _part(self, step: int, of: int) -> int:
        """Which of so many equal parts of the training a step is in; a time limit shortens all of them."""
        self._began = time.perf_counter() if self._began is None else self._began
        limit = self.settings.time_limit
        by_time = (time.perf_counter() - self._began) / limit if limit else 0.0
        return min(of - 1, int(max(step / self.settings.steps, by_time) * of))

    def batch(self, step: int, generator: torch.Generator, device: torch.device) -> tuple[Tensor, int]:
        """(batch, T, S) windows, as long as the step needs them, and how many frames it goes ahead."""
        rows = self._on(device)[0]
        horizon = self.horizon(step)
        length = self.learning.seen + 1 if self._follows(horizon) else HISTORY + horizon
        if self.mode == "mlp" and horizon == 1:
            length = HISTORY + 1
        kinds = len(ACTIVITIES) + 1
        begins = self._long(length, self._part(step, kinds) if self.learning.curriculum else kinds, device)
        which = torch.randint(len(begins), (self.learning.batch,), generator=generator, device=device)
        return rows[begins[which][:, None] + torch.arange(length, device=device)], horizon

    def _follows(self, horizon: int) -> bool:
        """Whether every frame of a window says the next one."""
        return horizon == 1 and self.mode not in ("direct", "transformer_reg")

    def loss(self, module: nn.Module, batch: tuple[Tensor, int], step: int) -> Mapping[str, Tensor]:
        """The parts of the loss, weighted; their sum is minimized."""
        assert isinstance(module, Steps)
        learning = self.learning
        true, horizon = batch
        known = true[:, : -1 if self._follows(horizon) else HISTORY]
        if learning.noise:
            known = known + learning.noise * torch.randn_like(known) * module.encoder.spread
        if horizon > 1 or self.mode == "direct":
            said = module.ahead(known, horizon, learning.rollouts == "detached")
        else:
            said = module.follow(known)
        return self.parts(said, true[:, -said.shape[1] :], horizon > 1)

    def parts(self, said: Tensor, true: Tensor, chained: bool) -> dict[str, Tensor]:
        """What is wrong with states (N, T, S), each part with its weight."""
        learning, own = self.learning, self.layout
        p, v = own.places, own.places + own.speeds
        weight = learning.velocity
        if weight is None:
            weight = float(true[..., :p].var() / true[..., p:v].var())
        out = {
            "position": learning.position * functional.mse_loss(said[..., :p], true[..., :p]),
            "velocity": weight * functional.mse_loss(said[..., p:v], true[..., p:v]),
        }
        if learning.smooth and said.shape[1] > 2:
            out["smooth"] = learning.smooth * said[..., :p].diff(n=2, dim=1).square().mean()
        if learning.joints:
            heads = self.posed(said, chained)
            with torch.no_grad():
                there = self.posed(true, chained)
            local = (heads - heads[..., :1, :]) - (there - there[..., :1, :])
            out["joints"] = learning.joints * (local.square().sum(dim=-1) + 1e-8).sqrt().mean()
            if chained and learning.path:
                off = (heads[..., 0, :2] - there[..., 0, :2]).square().sum(dim=-1)
                out["path"] = learning.path * (off + 1e-8).sqrt().mean()
        if own.contacts and learning.contact:
            likely = said[..., v:].clamp(1e-4, 1 - 1e-4)
            out["contact"] = learning.contact * functional.binary_cross_entropy(likely, true[..., v:])
        return out

    def validate(self, module: nn.Module) -> float:
        """[mm] mean distance of joints over all frames ahead, Hips at the origin."""
        assert isinstance(module, Steps)
        judged = self._on(next(module.parameters()).device)[1]
        said = module.ahead(judged[:, :HISTORY], judged.shape[1] - HISTORY)
        heads, there = self.posed(said, True), self.posed(judged[:, HISTORY:], True)
        local = (heads - heads[..., :1, :]) - (there - there[..., :1, :])
        found = float(local.norm(dim=-1).mean()) * self.leg * metrics.MM
        return found if np.isfinite(found) else 1e9

    def describe(self) -> dict[str, Any]:
        """Everything that the training depends on, and a hash of all states."""
        digest = hashlib.sha256()
        for found in (self.known, self.held):
            digest.update(np.ascontiguousarray(found.rows).tobytes())
        return {
            "mode": self.mode,
            "layout": self.layout.name,
            "design": vars(self.design),
            "learning": asdict(self.learning),
            "dropout": self.dropout,
            "states": digest.hexdigest()[:16],
        }
