# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of repairs share: a sound walk of the gait engine, and a small network that learned nothing."""

from __future__ import annotations

import functools

import numpy as np

from neural_network.core import reference_rig
from neural_network.gait import network as gait
from neural_network.gait import parameters, walks
from neural_network.learning.sequence import Tensors
from neural_network.repair.draws import Take
from neural_network.repair.inputs import BONES, PHYSICS, SEEN
from neural_network.repair.network import DILATIONS, OUTPUTS, Network

RIG = reference_rig.reference()
FPS = 30.0


@functools.cache
def walk() -> Take:
    """90 frames of a walk with arms and feet."""
    made = walks.walk(gait.load(), parameters.DEFAULT, 90, FPS)
    return Take("gait_1", made.turns, made.root)


@functools.cache
def rows() -> tuple[np.ndarray, np.ndarray]:
    """The same as rot_local (F, J, 3) float32 and the root's head (F, 3) float32."""
    rot, root = walks.to_local(RIG, walk().turns, walk().root)
    return rot.astype(np.float32), root.astype(np.float32)


def tensors(kind: str = "convolution", width: int = 8) -> Tensors:
    """Small random weights of a convolution."""
    assert kind == "convolution"
    rng = np.random.default_rng(3)

    def drawn(*shape: int) -> np.ndarray:
        return rng.normal(0, 0.2, shape).astype(np.float32)

    out = {"mean": np.zeros(SEEN, np.float32), "spread": np.ones(SEEN, np.float32)}
    out |= {"inputs.weight": drawn(width, SEEN), "inputs.bias": drawn(width)}
    out |= {"whole.weight": drawn(width, width), "whole.bias": drawn(width)}
    for at in (f"{stack}.blocks.{i}" for stack in ("body", "after") for i in range(len(DILATIONS))):
        out |= {f"{at}.norm.weight": drawn(width), f"{at}.norm.bias": drawn(width)}
        out |= {f"{at}.convolution.weight": drawn(width, width, 3), f"{at}.convolution.bias": drawn(width)}
        out |= {f"{at}.out.weight": drawn(width, width), f"{at}.out.bias": drawn(width)}
    for stack in ("body", "after"):
        out |= {f"{stack}.norm.weight": drawn(width), f"{stack}.norm.bias": drawn(width)}
    return out | {"outputs.weight": drawn(OUTPUTS, width), "outputs.bias": drawn(OUTPUTS)}


def network() -> Network:
    """A convolution of random weights."""
    return Network("convolution", tensors())


__all__ = ["BONES", "FPS", "PHYSICS", "RIG", "network", "rows", "tensors", "walk"]
