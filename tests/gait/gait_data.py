# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of gaits share: cycles and models that no captured take is needed for."""

from __future__ import annotations

import functools

import numpy as np

from neural_network.core import reference_rig
from neural_network.core.rotations import matrix_from_axis_angle
from neural_network.gait import curves, cycles, normals, parameters, teacher
from neural_network.gait.cycles import SAMPLES, Cycle
from neural_network.gait.network import Gait
from neural_network.gait.task import GaitTask, Samples, Training, loop_settings
from neural_network.gait.teacher import Model
from neural_network.learning import loop

RIG = reference_rig.reference()


def stride(step: float = 0.76, cadence: float = 0.565, run: bool = False, seed: int = 0) -> Cycle:
    """A cycle that walks by the published angles, its arms swinging; a run has more of everything."""
    rng = np.random.default_rng(seed)
    phase = np.arange(SAMPLES) / SAMPLES
    rot = np.zeros((SAMPLES, RIG.count, 3))
    index = {name: j for j, name in enumerate(RIG.names)}
    more = 1.6 if run else 1.0
    for k, side in enumerate(("Left", "Right")):
        hip, knee, ankle = np.radians(normals.flexion(phase + 0.5 * k - 0.04, min(step, 1.0), 0.6))
        rot[:, index[f"{side}Thigh"], 0] = -more * (hip - 0.1)
        rot[:, index[f"{side}Shin"], 0] = more * knee + 0.3 * run
        rot[:, index[f"{side}Foot"], 0] = -ankle
        sign = 1 if k == 0 else -1
        rot[:, index[f"{side}Arm"], 1] = sign * 1.3
        rot[:, index[f"{side}Arm"], 0] = sign * 0.3 * np.cos(2 * np.pi * phase)
        rot[:, index[f"{side}ForeArm"], 2] = -sign * 0.4
    rot[:, 1:4] += rng.normal(0, 0.01, 3)
    root = np.zeros((SAMPLES, 3))
    root[:, 0] = 0.02 * np.sin(2 * np.pi * phase)
    root[:, 2] = RIG.leg_length * 1.03 + 0.015 * np.cos(4 * np.pi * phase) - 0.05 * run
    leg = RIG.leg_length
    seconds = 2 / (cadence * np.sqrt(9.81 / leg))
    turns = matrix_from_axis_angle(rot)
    measured = cycles.measure(RIG, turns, root, seconds, 2 * step * leg, 0.0, (0.6, 0.6))
    return Cycle(turns, root, seconds, measured, 0, 0.0)


@functools.cache
def model() -> Model:
    """A teacher's model of three made-up performers."""
    steps = np.linspace(0.66, 0.94, 12)
    walks = [stride(s, 0.25 + 0.4 * s, seed=i) for i, s in enumerate(steps)]
    runs = [stride(s, 0.8, run=True, seed=i) for i, s in enumerate(np.linspace(1.2, 1.5, 12))]
    takes, people = [f"t{i}" for i in range(12)], [f"p{i % 3}" for i in range(12)]
    return teacher.learned(RIG, curves.fit(RIG, walks, takes, people), curves.fit(RIG, runs, takes, people))


@functools.cache
def samples(count: int = 40) -> Samples:
    """A few cycles of the teacher of :func:`model`, plain walks and runs."""
    who = teacher.KinematicTeacher(model())
    rng = np.random.default_rng(4)
    values = np.stack([parameters.vector({"speed": float(s)}) for s in rng.uniform(0.6, 2.1, count)])
    motions = np.stack([who.motion(v)[:30] for v in values]).astype(np.float32)
    return Samples(motions, values.astype(np.float32))


@functools.cache
def small() -> Gait:
    """A small network that knows healthy walks only."""
    training = Training(hidden=(48, 32), lr=0.004, epochs=300, batch_size=8, patience=300, cycles=40)
    task = GaitTask(samples(), training, model())
    return task.network(loop.run(task, loop_settings(training)).state.best)
