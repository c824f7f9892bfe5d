# SPDX-License-Identifier: GPL-3.0-or-later
"""The network: a multilayer perceptron in NumPy, and ``best.npy``, which holds all that is needed to use it.

The file is one NumPy record, read with ``allow_pickle=False``: the weights as a flat vector, the input statistics, the rig's
rest, and a JSON text with names, layout, configuration, the data's content hash and split, and the figures it reached.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..core import skeleton as skeletons
from ..core.files import write_whole
from ..core.skeleton import Skeleton
from .context import LAYOUTS, Layout

FORMAT = "neural_ik weights"
VERSION = 1
LARGEST = 1e9  # a weight beyond this was damaged, not learned; its outputs would leave float32
STEADY = 1e-3  # an input that deviates less than this in training is not scaled up


@dataclass(frozen=True)
class Network:
    """Weights and everything about them. Made by :func:`init`, :func:`load` or the trainer; never changed."""

    skeleton: Skeleton
    layout: Layout
    hidden: tuple[int, ...]
    mean: np.ndarray
    """(I) mean of each input in training."""
    deviation: np.ndarray
    """(I) standard deviation of each input in training, 1 where it is steady."""
    parameters: np.ndarray
    """(P) float32, all weights and biases in the order of :func:`layers`."""
    centres: np.ndarray
    """(C, I) standardised inputs that stand for all that was learned, for the out-of-range meter; C may be 0."""
    meta: dict[str, Any] = field(default_factory=dict)
    """What is known about it: configuration, data, split, figures. Plain JSON values."""


def sizes(skeleton: Skeleton, layout: Layout, hidden: Sequence[int]) -> tuple[int, ...]:
    """Width of every layer, from inputs to outputs."""
    return (layout.input_count(skeleton), *hidden, layout.output_count(skeleton))


def parameter_count(widths: Sequence[int]) -> int:
    """Number of weights and biases of a perceptron with these layer widths."""
    return sum((a + 1) * b for a, b in pairwise(widths))


def layers(parameters: np.ndarray, widths: Sequence[int]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Views (weights (in, out), bias (out)) of each layer in the flat vector ``parameters`` (P)."""
    out, at = [], 0
    for a, b in pairwise(widths):
        out.append((parameters[at : at + a * b].reshape(a, b), parameters[at + a * b : at + (a + 1) * b]))
        at += (a + 1) * b
    return out


def init(
    skeleton: Skeleton,
    layout: Layout,
    hidden: Sequence[int],
    inputs: np.ndarray,
    mean_output: np.ndarray,
    rng: np.random.Generator,
) -> Network:
    """A fresh network whose untrained answer is near ``mean_output`` (O), with the statistics of ``inputs`` (F, I).

    Weights are Glorot-uniform (Glorot & Bengio 2010), the last layer's a tenth of that.
    """
    widths = sizes(skeleton, layout, hidden)
    parameters = np.zeros(parameter_count(widths), np.float32)
    stack = layers(parameters, widths)
    for weights, _ in stack:
        weights[...] = rng.uniform(-1, 1, weights.shape) * np.sqrt(6 / sum(weights.shape))
    stack[-1][0][...] *= 0.1
    stack[-1][1][...] = mean_output
    deviation = inputs.std(axis=0, dtype=np.float64)
    deviation[deviation < STEADY] = 1
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
    x = (inputs - network.mean) / network.deviation
    return forward_layers(layers(network.parameters, _widths(network)), x)[-1]


def forward_layers(stack: list[tuple[np.ndarray, np.ndarray]], x: np.ndarray) -> list[np.ndarray]:
    """Standardised inputs (N, I) to the activations of every layer, [x, tanh, ..., outputs], all kept for the way back."""
    out = [x]
    for weights, bias in stack[:-1]:
        y = out[-1] @ weights
        y += bias
        out.append(np.tanh(y, out=y))
    weights, bias = stack[-1]
    out.append(out[-1] @ weights + bias)
    return out


def backward_layers(
    stack: list[tuple[np.ndarray, np.ndarray]],
    activations: list[np.ndarray],
    gradient: np.ndarray,
    into: list[tuple[np.ndarray, np.ndarray]],
) -> None:
    """Gradient of a value with respect to all weights, written ``into`` views shaped like ``stack``.

    ``activations`` are those of :func:`forward_layers`, ``gradient`` (N, O) is the value's with respect to the outputs.
    """
    for i in range(len(stack) - 1, -1, -1):
        np.matmul(activations[i].T, gradient, out=into[i][0])
        np.sum(gradient, axis=0, out=into[i][1])
        if i:
            gradient = gradient @ stack[i][0].T
            gradient *= 1 - activations[i] * activations[i]


def save(path: str | os.PathLike[str], network: Network) -> None:
    """Write ``best.npy``, whole or not at all."""
    rig = network.skeleton
    text = json.dumps(
        {
            "format": FORMAT,
            "version": VERSION,
            "layout": network.layout.name,
            "hidden": list(network.hidden),
            "bone_names": list(rig.names),
            "parents": rig.parents.tolist(),
            "effectors": [rig.names[e] for e in rig.effectors],
            "feet": [rig.names[f] for f in rig.feet],
            "meta": network.meta,
        },
        sort_keys=True,
    ).encode()
    limits = rig.limits if rig.limits is not None else np.zeros((0, 6))
    arrays = {
        "parameters": network.parameters.astype("<f4"),
        "mean": network.mean.astype("<f4"),
        "deviation": network.deviation.astype("<f4"),
        "centres": network.centres.astype("<f4"),
        "rest_arm": rig.rest_arm.astype("<f8"),
        "t_pose": rig.t_pose.astype("<f8"),
        "limits": limits.astype("<f8"),
    }
    kinds: list[Any] = [("about", f"S{len(text)}"), *((name, a.dtype.str, a.shape) for name, a in arrays.items())]
    record = np.zeros((), dtype=kinds)
    record["about"] = text
    for name, array in arrays.items():
        record[name] = array
    buffer = io.BytesIO()
    np.save(buffer, record, allow_pickle=False)
    write_whole(path, buffer.getvalue())


def load(path: str | os.PathLike[str]) -> Network:
    """Read ``best.npy``; nothing in it is ever unpickled.

    Raises FileNotFoundError with what to do, ValueError with the reason for anything else that is not a sound file.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(
            f"no weights at {path}: train first (python standalone_trainer.py), or choose another file"
        )
    if path.stat().st_size == 0:
        raise ValueError(f"{path.name}: expected weights (best.npy), got an empty file")
    try:
        record = np.load(path, allow_pickle=False)
    except Exception as error:  # NumPy raises many kinds for damaged files; every one means the same to the user
        word = f"a damaged file ({error})"
        if "pickle" in str(error):  # NumPy takes for pickled whatever it does not know
            word = "a file of another kind, or pickled content, which is refused unopened"
        raise ValueError(f"{path.name}: expected weights (best.npy), got {word}".split("\n")[0]) from None
    if not isinstance(record, np.ndarray) or record.dtype.names is None or "about" not in record.dtype.names:
        raise ValueError(f"{path.name}: expected weights saved by Neural IK, got another kind of NumPy file")
    try:
        about = json.loads(bytes(record["about"]))
        if about["format"] != FORMAT or about["version"] != VERSION:
            raise ValueError(f"expected version {VERSION} of {FORMAT}, got {about['version']} of {about['format']}")
        limits = record["limits"]
        rig = skeletons.make(
            about["bone_names"],
            np.array(about["parents"], int),
            record["rest_arm"],
            about["effectors"],
            about["feet"],
            record["t_pose"],
            limits if len(limits) else None,
        )
        if about["layout"] not in LAYOUTS:
            raise ValueError(f"expected a layout of {', '.join(LAYOUTS)}, got {about['layout']!r}")
        layout, hidden = LAYOUTS[about["layout"]], tuple(int(h) for h in about["hidden"])
        widths = sizes(rig, layout, hidden)
        shapes = {"parameters": (parameter_count(widths),), "mean": widths[:1], "deviation": widths[:1]}
        for name, shape in shapes.items():
            if record[name].shape != shape:
                raise ValueError(f"{name}: expected {shape} for layers {widths}, got {record[name].shape}")
        found = Network(
            rig,
            layout,
            hidden,
            np.array(record["mean"], np.float32),
            np.array(record["deviation"], np.float32),
            np.array(record["parameters"], np.float32),
            np.array(record["centres"], np.float32),
            about["meta"],
        )
        _check_meta(found.meta)
    except (KeyError, TypeError, IndexError, OverflowError, RecursionError, ValueError) as error:
        raise ValueError(f"{path.name}: not a sound weights file: {error}") from None
    sound = all((np.abs(a) <= LARGEST).all() for a in (found.parameters, found.mean, found.deviation, found.centres))
    if not sound or np.any(found.deviation <= 0):
        raise ValueError(f"{path.name}: not a sound weights file: NaN, infinity or a zero scale among the weights")
    return found


def _check_meta(meta: Any) -> None:
    """ValueError unless what others rely on in ``meta`` is what the trainer writes: split, settings, validation figure."""
    if not isinstance(meta, dict):
        raise ValueError(f"meta: expected a dictionary, got {type(meta).__name__}")
    for name in ("data", "config"):
        if not isinstance(meta.get(name, {}), dict):
            raise ValueError(f"meta: expected {name} to be a dictionary, got {type(meta[name]).__name__}")
    figure = meta.get("best_validation_mm")
    if figure is not None and (isinstance(figure, bool) or not isinstance(figure, (int, float))):
        raise ValueError(f"meta: expected best_validation_mm to be a number, got {figure!r}")
    for clip in meta.get("data", {}).get("clips", []):
        runs = clip["parts"]
        if not isinstance(clip["hash"], str) or not all(
            len(run) == 2 and all(type(n) is int for n in run) and 0 <= run[0] <= _LONGEST and 0 <= run[1] < 4
            for run in runs
        ):
            raise ValueError(f"meta: expected a hash and runs of frames and part for every clip, got {str(clip)[:60]}")


_LONGEST = 2**31 - 1  # frames in a clip


def _widths(network: Network) -> tuple[int, ...]:
    return sizes(network.skeleton, network.layout, network.hidden)
