# SPDX-License-Identifier: GPL-3.0-or-later
"""A trainee for a channel layout: created with its sizes, and fed with wire rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..learning.layers import parameter_count
from .channels import encode_inputs, encode_outputs, feature_count, stray
from .layouts import ChannelLayout, groups
from .trainee import Settings, Trainee

LEGS_DECAY = 0.5
"""Least weight decay for the legs layout: little is left to learn from the reached pose, and on unseen takes learning too
much is worse than learning too little."""


def new_trainee(layout: ChannelLayout, settings: Settings | None = None, seed: int = 0) -> Trainee:
    """An untrained trainee with as many inputs and outputs as a layout's encoded rows."""
    settings = settings or Settings()
    if layout.name == "legs":
        settings = replace(settings, decay=max(settings.decay, LEGS_DECAY))
    rng = np.random.default_rng(seed)
    # the soles come last; they are not on the wire, and do not count in the error
    return Trainee(feature_count(layout), groups(layout), settings, rng, judged=len(layout.outputs))


def weight_count(layout: ChannelLayout, settings: Settings) -> int:
    """How many weights the network of a layout's trainee has, without making one."""
    return parameter_count((feature_count(layout), *settings.hidden, sum(groups(layout))), skip=True)


def observe(
    layout: ChannelLayout, trainee: Trainee, inputs: np.ndarray, outputs: np.ndarray, rng: np.random.Generator
) -> None:
    """Give one frame of wire rows to the trainee. Raises ValueError, and changes nothing, for rows that are refused."""
    strayed = stray(layout, inputs, rng)
    if strayed is None:
        x, scene = encode_inputs(layout, inputs)
        trainee.observe(x, encode_outputs(layout, outputs, scene))
        return
    x, scene = encode_inputs(layout, np.stack([inputs, strayed]))
    y = encode_outputs(layout, np.stack([outputs, outputs]), scene)
    trainee.observe(x[0], y[0], (x[1], y[1]))
