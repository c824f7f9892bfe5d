# SPDX-License-Identifier: GPL-3.0-or-later
"""The network: a multilayer perceptron over the inputs of a layout, and ``best.npy``, which holds all that is needed to use it.

``best.npy`` is a model file of kind ``ik`` (see :mod:`~neural_network.learning.model_file`): the layers by name, the input
statistics, the rig at rest, and a JSON text with names, layout, configuration, the data's content hash and split, and figures.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..core import skeleton as skeletons
from ..core.skeleton import Skeleton
from ..learning import layers, model_file
from ..learning.layers import Stack, parameter_count
from . import pose_density
from .context import LAYOUTS, Layout
from .pose_density import PoseDensity
from .pose_prior import Prior

KIND = "ik"
STEADY = 1e-3  # an input that deviates less than this in training is not scaled up


@dataclass(frozen=True)
class Network:
    """Weights and everything needed to use them. Made by :func:`init`, :func:`load` or the trainer; never changed."""

    skeleton: Skeleton
    layout: Layout
    hidden: tuple[int, ...]
    mean: np.ndarray
    """(I) mean of each input in training."""
    deviation: np.ndarray
    """(I) standard deviation of each input in training, 1 where it is steady."""
    parameters: np.ndarray
    """(P) float32, all weights and biases, layer by layer; :func:`stack` gives views of them."""
    centres: np.ndarray
    """(C, I) standardised inputs that represent the training data, for the out-of-range meter; C may be 0."""
    meta: dict[str, Any] = field(default_factory=dict)
    """Configuration, data, split, figures. Plain JSON values."""
    density: PoseDensity | None = None
    """How likely the character's poses are; None for weights of older versions and networks that are not trained."""

    @cached_property
    def prior(self) -> Prior | None:
        """The density prepared for solving on ``skeleton``."""
        return None if self.density is None else Prior(self.skeleton, self.density)


def sizes(skeleton: Skeleton, layout: Layout, hidden: Sequence[int]) -> tuple[int, ...]:
    """Width of every layer, from inputs to outputs."""
    return (layout.input_count(skeleton), *hidden, layout.output_count(skeleton))


def stack(network: Network) -> Stack:
    """Views of the network's layers."""
    return layers.stack(network.parameters, sizes(network.skeleton, network.layout, network.hidden))


def init(
    skeleton: Skeleton,
    layout: Layout,
    hidden: Sequence[int],
    inputs: np.ndarray,
    mean_output: np.ndarray,
    rng: np.random.Generator,
) -> Network:
    """A fresh network whose untrained answer is near ``mean_output`` (O), with the statistics of ``inputs`` (F, I).

    Weights are Glorot-uniform, the last layer's a tenth of that. The weights of an input that never varied begin at zero:
    no gradient will ever reach them, and so the input cannot move the pose when it has another value in use.
    """
    widths = sizes(skeleton, layout, hidden)
    parameters = np.zeros(parameter_count(widths), np.float32)
    fresh = layers.stack(parameters, widths)
    layers.glorot(fresh, rng, last=0.1)
    fresh.layers[-1][1][...] = mean_output
    deviation = inputs.std(axis=0, dtype=np.float64)
    constant = deviation < STEADY
    fresh.layers[0][0][constant] = 0
    deviation[constant] = 1
    deviation[layout.columns(skeleton)["flags"]] = 1
    return Network(
        skeleton,
        layout,
        tuple(hidden),
        inputs.mean(axis=0, dtype=np.float64).astype(np.float32),
        deviation.astype(np.float32),
        parameters,
        np.zeros((0, widths[0]), np.float32),
    )


def forward(network: Network, inputs: np.ndarray) -> np.ndarray:
    """Inputs (N, I) to outputs (N, O)."""
    return layers.forward(stack(network), (inputs - network.mean) / network.deviation)[-1]


def save(path: str | os.PathLike[str], network: Network) -> None:
    """Write ``best.npy``, whole or not at all."""
    rig = network.skeleton
    about = {
        "layout": network.layout.name,
        "hidden": list(network.hidden),
        "bone_names": list(rig.names),
        "parents": rig.parents.tolist(),
        "effectors": [rig.names[e] for e in rig.effectors],
        "feet": [rig.names[f] for f in rig.feet],
        "meta": network.meta,
    }
    limits = rig.limits if rig.limits is not None else np.zeros((0, 6))
    floats = {
        **layers.to_tensors(stack(network)),
        "mean": network.mean,
        "deviation": network.deviation,
        "centres": network.centres,
    }
    doubles = {"rest_arm": rig.rest_arm, "t_pose": rig.t_pose, "limits": limits}
    tensors = {n: a.astype("<f4") for n, a in floats.items()} | {n: a.astype("<f8") for n, a in doubles.items()}
    if network.density is not None:
        tensors |= pose_density.to_tensors(network.density)
    model_file.write(path, model_file.Model(KIND, about, tensors))


def load(path: str | os.PathLike[str]) -> Network:
    """Read ``best.npy``, of this version or of the one before kinds existed; nothing in it is ever unpickled.

    Raises FileNotFoundError with what to do, ValueError with the reason for anything else that is not a sound file.
    """
    todo = "train first (python standalone_trainer.py), or choose another file"
    model = model_file.read(path, KIND, todo)
    try:
        found = _network_of(model)
        model_file.require_learned({n: getattr(found, n) for n in ("parameters", "mean", "deviation", "centres")})
    except (KeyError, TypeError, IndexError, OverflowError, RecursionError, ValueError) as error:
        raise ValueError(f"{Path(path).name}: not a sound weights file: {error}") from None
    if np.any(found.deviation <= 0):
        raise ValueError(f"{Path(path).name}: not a sound weights file: a scale of zero or below among the inputs")
    return found


def _network_of(model: model_file.Model) -> Network:
    about, tensors = model.about, model.tensors
    limits = tensors["limits"]
    rig = skeletons.make(
        about["bone_names"],
        np.array(about["parents"], int),
        tensors["rest_arm"],
        about["effectors"],
        about["feet"],
        tensors["t_pose"],
        limits if len(limits) else None,
    )
    if about["layout"] not in LAYOUTS:
        raise ValueError(f"expected a layout of {', '.join(LAYOUTS)}, got {about['layout']!r}")
    layout, hidden = LAYOUTS[about["layout"]], tuple(int(h) for h in about["hidden"])
    widths = sizes(rig, layout, hidden)
    for name in ("mean", "deviation"):
        if tensors[name].shape != widths[:1]:
            raise ValueError(f"{name}: expected {widths[:1]} for layers {widths}, got {tensors[name].shape}")
    if tensors["centres"].ndim != 2:
        raise ValueError(f"centres: expected rows of standardised inputs, got {tensors['centres'].shape}")
    _check_meta(about["meta"])
    return Network(
        rig,
        layout,
        hidden,
        np.array(tensors["mean"], np.float32),
        np.array(tensors["deviation"], np.float32),
        _parameters(tensors, widths, model.version),
        np.array(tensors["centres"], np.float32),
        about["meta"],
        pose_density.from_tensors(tensors, rig),
    )


def _parameters(tensors: Mapping[str, np.ndarray], widths: Sequence[int], version: int) -> np.ndarray:
    """The flat vector of parameters; files of version 1 hold it as it is, later ones by layer."""
    if version > 1:
        return layers.from_tensors(tensors, widths)
    count = parameter_count(widths)
    if tensors["parameters"].shape != (count,):
        raise ValueError(f"parameters: expected ({count},) for layers {widths}, got {tensors['parameters'].shape}")
    return np.array(tensors["parameters"], np.float32)


def _check_meta(meta: Any) -> None:
    """ValueError unless ``meta`` holds what the rest of the project reads from it: split, settings, validation figure."""
    if not isinstance(meta, dict):
        raise ValueError(f"meta: expected a dictionary, got {type(meta).__name__}")
    for name in ("data", "config"):
        if not isinstance(meta.get(name, {}), dict):
            raise ValueError(f"meta: expected {name} to be a dictionary, got {type(meta[name]).__name__}")
    figure = meta.get("best_validation_mm")
    if figure is not None and (
        isinstance(figure, bool) or not isinstance(figure, (int, float)) or not 0 <= figure < float("inf")
    ):
        raise ValueError(f"meta: expected best_validation_mm to be a number from 0, got {figure!r}")
    seed = meta.get("config", {}).get("seed", 0)
    if type(seed) is not int or seed < 0:
        raise ValueError(f"meta: expected the seed to be a whole number from 0, got {seed!r}")
    spread = meta.get("config", {}).get("proportions", 0)
    if isinstance(spread, bool) or not isinstance(spread, (int, float)) or not 0 <= spread <= 1:
        raise ValueError(f"meta: expected the proportions to be a number from 0 to 1, got {spread!r}")
    for clip in meta.get("data", {}).get("clips", []):
        runs = clip["parts"]
        if not isinstance(clip["hash"], str) or not all(
            len(run) == 2 and all(type(n) is int for n in run) and 0 <= run[0] <= _LONGEST and 0 <= run[1] < 4
            for run in runs
        ):
            raise ValueError(f"meta: expected a hash and runs of frames and part for every clip, got {str(clip)[:60]}")


_LONGEST = 2**31 - 1  # frames in a clip
