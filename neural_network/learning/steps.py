# SPDX-License-Identifier: GPL-3.0-or-later
"""How a training that counts steps, not epochs, is done: its settings, its step sizes and its flags; ``torch_training`` runs it."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field, fields, replace
from typing import Literal, get_args

from .arguments import number, positive, share
from .optimizer import AdamSettings, cosine

Schedule = Literal["cosine", "onecycle"]
FIRST = 1 / 25  # of the highest step size, where a schedule of one cycle begins


@dataclass(frozen=True)
class StepSettings:
    """How long and how fast a network is trained, whatever it learns."""

    steps: int = 10_000
    """Most steps, each of one batch."""
    round: int = 250
    """Steps between validations; a training can be stopped and resumed there."""
    lr: float = 3e-4
    """The highest step size."""
    lr_end: float = 0.02
    """Share of ``lr`` that is left at the end."""
    schedule: Schedule = "cosine"
    """After the warm-up the step size falls along half a cosine. "onecycle" warms up along a cosine, too, from 1/25 of ``lr``."""
    warm_up: float = 0.03
    """Share of the training in which the step size rises."""
    time_limit: float = 0.0
    """[wall s] for the whole training; the schedule then follows the time. 0: no limit."""
    seed: int = 0
    """Of the first weights and of every batch."""
    adam: AdamSettings = field(default_factory=lambda: AdamSettings(beta2=0.99, decay=0.01, clip=1.0, average=0.999))
    """The averaged weights are validated and kept where ``average`` is not 0. Vectors, such as biases, do not decay."""


def rate(settings: StepSettings, done: float) -> float:
    """The step size after the share ``done`` (0 to 1) of a training.

    Warm-up and cosine: Loshchilov & Hutter 2017, arXiv 1608.03983; one cycle: Smith & Topin 2018, arXiv 1708.07120.
    """
    if done < settings.warm_up:
        risen = done / settings.warm_up
        if settings.schedule == "onecycle":
            return settings.lr * (1 + FIRST - cosine(risen, FIRST))
        return settings.lr * risen
    return settings.lr * cosine((done - settings.warm_up) / max(1 - settings.warm_up, 1e-9), settings.lr_end)


def add_steps(parser: argparse.ArgumentParser, defaults: StepSettings) -> argparse._ArgumentGroup:
    """The flags of :class:`StepSettings` and of the device; :func:`steps_of` reads them."""
    how = parser.add_argument_group("training")
    how.add_argument("--steps", type=positive(int), default=defaults.steps, help="most steps, each of one batch")
    how.add_argument("--round", type=positive(int), default=defaults.round, help="steps between validations")
    how.add_argument("--lr", type=positive(float), default=defaults.lr, help="the highest step size of AdamW")
    how.add_argument("--lr-end", type=share, default=defaults.lr_end, help="share of --lr that is left at the end")
    how.add_argument("--schedule", choices=get_args(Schedule), default=defaults.schedule, help="of the step size")
    how.add_argument("--warm-up", type=share, default=defaults.warm_up, help="share of the training in which it rises")
    adam = defaults.adam
    how.add_argument("--decay", type=positive(float, zero=True), default=adam.decay, help="weight decay, decoupled")
    how.add_argument("--clip", type=positive(float, zero=True), default=adam.clip, help="longest gradient; 0: any")
    how.add_argument(
        "--average",
        type=number(float, 0, 0.999999),
        default=adam.average,
        help="decay of the averaged weights; 0: none",
    )
    how.add_argument("--seed", type=positive(int, zero=True), default=defaults.seed, help="of weights and batches")
    how.add_argument(
        "--time-limit",
        type=positive(float, zero=True),
        default=defaults.time_limit,
        metavar="S",
        help="seconds per training; 0: no limit",
    )
    how.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: a GPU where there is one")
    how.add_argument("--threads", type=positive(int), default=1, help="threads of PyTorch and of NumPy's BLAS")
    return how


def steps_of(args: argparse.Namespace) -> StepSettings:
    """The settings that the flags of :func:`add_steps` ask for."""
    own = {f.name: getattr(args, f.name) for f in fields(StepSettings) if f.name != "adam"}
    adam = replace(StepSettings().adam, decay=args.decay, clip=args.clip, average=args.average)
    return StepSettings(**own, adam=adam)
