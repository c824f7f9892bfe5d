# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded clips streamed as an engine would: what a trainee learns from them, and how well, compared with baselines.

``replay`` streams the rows of a task (``tasks.py``) frame by frame and evaluates on whole clips that were held out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core.messages import counted
from ..core.rotations import geodesic_angle
from .channels import decode, encode_inputs, encode_outputs
from .layouts import ChannelLayout, positions_layout
from .learner import new_trainee, observe
from .leg_reach import legs_forward
from .tasks import LegMotion, task_layout, task_rows
from .trainee import STATES, Settings, Trainee

HeldOut = Sequence[tuple[LegMotion, np.ndarray, np.ndarray]]
"""Clips to evaluate on, each with its wire rows (F, inputs) and (F, outputs)."""


def replay(
    task: str,
    learn: Sequence[LegMotion],
    hold: Sequence[LegMotion],
    *,
    settings: Settings | None = None,
    frame_seconds: float = 0.002,
    idle_seconds: float = 0.0,
    live_frames: int = 800,
    rotations: bool = True,
    limbs: bool = True,
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[dict[str, Any]]:
    """Stream ``learn`` frame by frame, with at most ``frame_seconds`` of work each, and evaluate on ``hold``.

    Yields a report of the baselines, one after ``live_frames``, and one after the whole pass. From ``live_frames`` on, each
    frame is followed by ``idle_seconds`` of training on the store: the time that a stream leaves free between two frames.
    Raises ValueError for an unknown task or no clips.
    """
    if not learn or not hold:
        raise ValueError(f"replay: expected clips to learn and to hold out, got {len(learn)} and {len(hold)}")
    layout = task_layout(task, learn[0], rotations=rotations, limbs=limbs)
    trainee = new_trainee(layout, settings, seed)
    rows = [task_rows(task, m, rotations=rotations) for m in learn]
    held_out = [(m, *task_rows(task, m, rotations=rotations)) for m in hold]
    yield {"task": task, "stage": "baselines", **_baselines(task, layout, rows, held_out)}
    rng = np.random.default_rng(seed + 1)
    spent: list[float] = []
    busy = 0.0
    total = sum(len(r[0]) for r in rows)
    start = clock()
    frames = ((a, b) for inputs, outputs in rows for a, b in zip(inputs, outputs, strict=True))
    for count, (a, b) in enumerate(frames, 1):
        begin, begin_busy = clock(), time.thread_time()
        observe(layout, trainee, a, b, rng)
        # a step can take a few tenths of a millisecond: end early rather than late
        trainee.train(1 << 30, max(0.0, 0.85 * frame_seconds - (clock() - begin)))
        spent.append(clock() - begin)
        busy += time.thread_time() - begin_busy
        if count > live_frames and idle_seconds:
            trainee.train(1 << 30, idle_seconds)
        if count in (live_frames, total):
            yield {
                "task": task,
                "stage": f"after {counted(count, 'frame')}",
                "frames": count,
                "steps": trainee.steps,
                "state": STATES[trainee.state],
                "usual_error": trainee.usual,
                "ms_a_frame_mean": 1e3 * float(np.mean(spent)),
                "cpu_ms_a_frame_mean": 1e3 * busy / count,
                "ms_a_frame_p99": 1e3 * float(np.percentile(spent, 99)),
                "seconds": clock() - start,
                **evaluate(task, layout, trainee, held_out),
            }


def evaluate(task: str, layout: ChannelLayout, trainee: Trainee, held_out: HeldOut) -> dict[str, Any]:
    """Errors of the trainee on whole clips, pooled over frames and for each clip.

    ``legs`` adds ``exact_*``, with the feet put on their targets after the network, and ``driven_*``: the same in a closed
    loop, where the previous pose is the trainee's own answer and not the recorded pose.
    """
    clips, exact, driven = {}, {}, {}
    for motion, inputs, outputs in held_out:
        x, scene = encode_inputs(layout, inputs)
        guess = trainee.predict(x)
        clips[motion.name] = _errors(task, scene, decode(layout, guess, scene), outputs)
        if task == "legs":
            exact[motion.name] = _errors(task, scene, decode(layout, guess, scene, exact=True), outputs)
            driven[motion.name] = _errors(task, scene, _drive(layout, trainee, inputs), outputs)
    return _pooled(clips) | _pooled(exact, "exact_") | _pooled(driven, "driven_")


def _drive(layout: ChannelLayout, trainee: Trainee, inputs: np.ndarray) -> np.ndarray:
    """Answers (F, 24) where each frame's previous pose is the last answer."""
    answers: list[np.ndarray] = []
    for given in inputs:
        row = given.copy()
        if answers:
            row[7:49].reshape(6, 7)[:, 3:] = answers[-1].reshape(6, 4)
        x, scene = encode_inputs(layout, row)
        answers.append(decode(layout, trainee.predict(x), scene, exact=True))
    return np.array(answers)


def _baselines(
    task: str, layout: ChannelLayout, rows: Sequence[tuple[np.ndarray, np.ndarray]], held_out: HeldOut
) -> dict[str, Any]:
    """Errors of what needs no training: a constant, a two-bone solver with a forward pole, the previous pose."""
    clips: dict[str, dict[str, dict[str, np.ndarray]]] = {}
    free = positions_layout("Pelvis", ["LeftFoot", "RightFoot"], ["LeftCalf", "RightCalf"], up=layout.up)
    for motion, inputs, outputs in held_out:
        _, scene = encode_inputs(layout, inputs)
        if task == "legs":
            guesses = {
                "previous_pose": inputs[:, 7:49].reshape(-1, 6, 7)[..., 3:].reshape(-1, 24),
                "previous_pose_on_targets": decode(layout, np.zeros((len(inputs), 24)), scene),
            }
        elif task == "calf":
            guesses = {"constant": np.broadcast_to(np.concatenate([r[1] for r in rows]).mean(0), outputs.shape)}
        else:
            plain = ChannelLayout("free", free.inputs[:2], free.outputs, up=layout.up)
            in_pelvis = [encode_outputs(plain, r[1], encode_inputs(plain, r[0][:, :7])[1]) for r in rows]
            mean = np.concatenate(in_pelvis).mean(0)
            _, bare = encode_inputs(plain, inputs[:, :7])
            guesses = {
                "constant": decode(plain, np.broadcast_to(mean, outputs.shape), bare),
                "two_bone_forward": _forward_pole(motion, inputs),
            }
        for name, guess in guesses.items():
            clips.setdefault(name, {})[motion.name] = _errors(task, scene, guess, outputs)
    return {name: _pooled(errors) for name, errors in clips.items()}


def _forward_pole(motion: LegMotion, inputs: np.ndarray) -> np.ndarray:
    """Knees of a two-bone solver whose pole is the pelvis' forward direction at rest."""
    layout = task_layout("knee", motion, rotations=False)
    size = (inputs.shape[1] - 7) // 2  # numbers of a foot; its position comes first
    _, scene = encode_inputs(layout, inputs[:, [*range(10), *range(7 + size, 10 + size)]])
    left = motion.rest["LeftThigh"] - motion.rest["RightThigh"]
    local = np.cross(left, np.array(motion.up)) @ scene["limb.frame"]
    return decode(layout, local[..., [0, 2]].reshape(len(inputs), -1), scene)


def _errors(task: str, scene: dict[str, np.ndarray], guess: np.ndarray, true: np.ndarray) -> dict[str, np.ndarray]:
    """Distances (F) of each frame, mean over the two legs."""
    if task != "legs":
        distance = np.linalg.norm((guess - true).reshape(-1, 2, 3), axis=-1)
        return {f"{task}_mm": 1e3 * distance.mean(-1), f"{task}_cm2": 1e4 * (distance**2).mean(-1)}
    knee, foot, turned = legs_forward(scene, guess.reshape(-1, 6, 4))
    true_knee, true_foot, true_turned = legs_forward(scene, true.reshape(-1, 6, 4))
    return {
        "foot_mm": 1e3 * np.linalg.norm(foot - true_foot, axis=-1).mean(-1),
        "foot_deg": np.degrees(geodesic_angle(turned, true_turned)).mean(-1),
        "knee_mm": 1e3 * np.linalg.norm(knee - true_knee, axis=-1).mean(-1),
    }


def _pooled(clips: dict[str, dict[str, np.ndarray]], prefix: str = "") -> dict[str, Any]:
    """Means over all frames, and under ``_clips`` for each clip."""
    out: dict[str, Any] = {}
    for key in next(iter(clips.values()), {}):
        out[prefix + key] = float(np.concatenate([c[key] for c in clips.values()]).mean())
        out[prefix + key + "_clips"] = {name: float(c[key].mean()) for name, c in clips.items()}
    return out
