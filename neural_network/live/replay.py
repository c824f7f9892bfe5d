# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded clips as if they were streamed: what a trainee learns from them, and how well, beside plain baselines.

``legs`` finds the bones; ``knee_rows``, ``calf_rows`` and ``leg_rows`` turn a clip into the rows that a client would
send; ``replay`` streams them frame by frame and judges on whole clips that were held out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.rotations import geodesic_angle, matrix_from_quaternion, quaternion_conjugate, quaternion_multiply
from ..motion.clip import Clip
from .channels import (
    LEGS_DECAY,
    SIDES,
    Layout,
    Limb,
    decode,
    encode_inputs,
    encode_outputs,
    feature_count,
    groups,
    legs_forward,
    legs_layout,
    positions_layout,
    stray,
)
from .trainee import STATES, Settings, Trainee

TASKS = ("knee", "calf", "legs")
"""What may be learned from a clip: knees in the pelvis' space, calves in their thighs' space, the 63 -> 24 layout."""
_NAMES = {
    "Pelvis": ("hips", "pelvis", "hip"),
    "Thigh": ("upleg", "thigh", "upperleg"),
    "Calf": ("leg", "shin", "calf", "lowerleg"),
    "Foot": ("foot", "ankle"),
}


@dataclass(frozen=True)
class Motion:
    """A clip's pelvis and legs in the file's world: metres, quaternions (w, x, y, z)."""

    name: str
    positions: dict[str, np.ndarray]
    """Bone (``Pelvis``, ``LeftThigh``, ... ``RightFoot``) -> (F, 3) [m]."""
    rotations: dict[str, np.ndarray]
    """Bone -> (F, 4)."""
    rest: dict[str, np.ndarray]
    """Bone -> (3) rest head relative to the pelvis [m]."""
    up: tuple[float, float, float]
    fps: float


def motion_from_clip(clip: Clip, skip: int = 0) -> Motion:
    """World positions and rotations of pelvis and legs; the first ``skip`` frames (an inserted T-pose) left out.

    Raises ValueError where the bones are not found by their usual names, listing the names there are.
    """
    found = {"Pelvis": _find(clip, "", "Pelvis")}
    for side in SIDES:
        for bone in ("Thigh", "Calf", "Foot"):
            found[side + bone] = _find(clip, side, bone)
    joints = len(clip.names)
    turn = np.empty((clip.frames, joints, 4))
    place = np.empty((clip.frames, joints, 3))
    rest = np.zeros((joints, 3))
    for j in range(joints):
        p = int(clip.parents[j])
        if p < 0:
            turn[:, j], place[:, j] = clip.rotations[:, j], clip.root_pos
            continue
        offset = clip.translations.get(j, clip.offsets[j])
        turn[:, j] = quaternion_multiply(turn[:, p], clip.rotations[:, j])
        place[:, j] = place[:, p] + _turn(turn[:, p], offset)
        rest[j] = rest[p] + clip.offsets[j]
    place *= clip.unit
    rest = (rest - rest[found["Pelvis"]]) * clip.unit
    return Motion(
        clip.name,
        {bone: place[skip:, j] for bone, j in found.items()},
        {bone: turn[skip:, j] for bone, j in found.items()},
        {bone: rest[j] for bone, j in found.items()},
        (0.0, 0.0, 1.0) if clip.up_axis == "Z" else (0.0, 1.0, 0.0),
        clip.fps,
    )


def limbs_of(motion: Motion) -> tuple[Limb, ...]:
    """Both legs as limbs of the pelvis, from the rest pose."""
    out = []
    for side in SIDES:
        hip, knee, ankle = (motion.rest[side + bone] for bone in ("Thigh", "Calf", "Foot"))
        lengths = float(np.linalg.norm(knee - hip)), float(np.linalg.norm(ankle - knee))
        (a, b, c), (x, y, z) = (float(v) for v in hip), (float(v) for v in ankle - hip)
        out.append(Limb(f"{side}Foot.position", f"{side}Calf.position", (a, b, c), *lengths, (x, y, z)))
    return tuple(out)


def task_layout(task: str, motion: Motion, *, rotations: bool = True, limbs: bool = True) -> Layout:
    """The layout that a ``task`` of ``TASKS`` uses for this rig."""
    if task == "legs":
        return legs_layout(up=motion.up)
    feet, calves = [f"{side}Foot" for side in SIDES], [f"{side}Calf" for side in SIDES]
    if task == "calf":
        return positions_layout("Pelvis", feet, calves, rotations=rotations, parent_space=True, up=motion.up)
    if task == "knee":
        both = limbs_of(motion) if limbs else ()
        return positions_layout("Pelvis", feet, calves, both, rotations=rotations, up=motion.up)
    raise ValueError(f"task: expected one of {TASKS}, got {task!r}")


def task_rows(task: str, motion: Motion, *, rotations: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """The rows (F, inputs) and (F, outputs) that a client would send for ``motion``; legs start at the second frame."""
    p, q = motion.positions, motion.rotations
    if task == "legs":
        return _leg_rows(motion)
    inputs = [p["Pelvis"], q["Pelvis"]]
    outputs = []
    for side in SIDES:
        inputs += [p[f"{side}Foot"], q[f"{side}Foot"]] if rotations else [p[f"{side}Foot"]]
        calf = p[f"{side}Calf"]
        if task == "calf":
            calf = _turn(quaternion_conjugate(q[f"{side}Thigh"]), calf - p[f"{side}Thigh"])
        outputs.append(calf)
    return np.concatenate(inputs, axis=1), np.concatenate(outputs, axis=1)


def replay(
    task: str,
    learn: Sequence[Motion],
    hold: Sequence[Motion],
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
    """Stream ``learn`` frame by frame, at most ``frame_seconds`` of work each; judge on ``hold``. Yields reports.

    First the baselines, then after ``live_frames``, then after the whole pass. From ``live_frames`` on each frame is
    followed by ``idle_seconds`` more of replay: what a stream leaves free between two frames.
    """
    if not learn or not hold:
        raise ValueError(f"replay: expected clips to learn and to hold out, got {len(learn)} and {len(hold)}")
    shape = task_layout(task, learn[0], rotations=rotations, limbs=limbs)
    trainee = fresh(shape, settings, seed)
    rows = [task_rows(task, m, rotations=rotations) for m in learn]
    tests = [(m, *task_rows(task, m, rotations=rotations)) for m in hold]
    yield {"task": task, "stage": "baselines", **_baselines(task, shape, rows, tests)}
    rng = np.random.default_rng(seed + 1)
    spent: list[float] = []
    busy = 0.0
    count = 0
    total = sum(len(r[0]) for r in rows)
    start = clock()
    for inputs, outputs in rows:
        for a, b in zip(inputs, outputs, strict=True):
            begin, begin_busy = clock(), time.thread_time()
            observe(shape, trainee, a, b, rng)
            # a step may take a few tenths of a millisecond: end early rather than late
            trainee.train(1 << 30, max(0.0, 0.85 * frame_seconds - (clock() - begin)))
            spent.append(clock() - begin)
            busy += time.thread_time() - begin_busy
            count += 1
            if count > live_frames and idle_seconds:
                trainee.train(1 << 30, idle_seconds)
            if count in (live_frames, total):
                yield {
                    "task": task,
                    "stage": f"after {count} frames",
                    "frames": count,
                    "steps": trainee.steps,
                    "state": STATES[trainee.state],
                    "usual_error": trainee.usual,
                    "ms_a_frame_mean": 1e3 * float(np.mean(spent)),
                    "cpu_ms_a_frame_mean": 1e3 * busy / count,
                    "ms_a_frame_p99": 1e3 * float(np.percentile(spent, 99)),
                    "seconds": clock() - start,
                    **judge(task, shape, trainee, tests),
                }


def fresh(shape: Layout, settings: Settings | None = None, seed: int = 0) -> Trainee:
    """A trainee that knows nothing yet, of the sizes of a layout's features and outputs."""
    settings = settings or Settings()
    if shape.name == "legs":
        settings = replace(settings, decay=max(settings.decay, LEGS_DECAY))
    rng = np.random.default_rng(seed)
    # the legs' soles, which come last, are no outputs of the wire and do not count
    return Trainee(feature_count(shape), groups(shape), settings, rng, judged=len(shape.outputs))


def observe(shape: Layout, trainee: Trainee, inputs: np.ndarray, outputs: np.ndarray, rng: np.random.Generator) -> None:
    """Give one frame of wire rows to the trainee. Raises ValueError, and changes nothing, for rows that are refused."""
    strayed = stray(shape, inputs, rng)
    if strayed is None:
        x, scene = encode_inputs(shape, inputs)
        trainee.observe(x, encode_outputs(shape, outputs, scene))
        return
    x, scene = encode_inputs(shape, np.stack([inputs, strayed]))
    y = encode_outputs(shape, np.stack([outputs, outputs]), scene)
    trainee.observe(x[0], y[0], (x[1], y[1]))


def judge(
    task: str, shape: Layout, trainee: Trainee, tests: Sequence[tuple[Motion, np.ndarray, np.ndarray]]
) -> dict[str, Any]:
    """Errors of the trainee on whole clips, pooled over frames and for each clip.

    ``legs`` adds ``exact_*``, where the feet were put on their targets after the network, and ``driven_*``: the same in
    a closed loop, where the previous pose is the trainee's own and not the recorded one.
    """
    clips, exact, driven = {}, {}, {}
    for motion, inputs, outputs in tests:
        x, scene = encode_inputs(shape, inputs)
        guess = trainee.predict(x)
        clips[motion.name] = _errors(task, shape, scene, decode(shape, guess, scene), outputs)
        if task == "legs":
            exact[motion.name] = _errors(task, shape, scene, decode(shape, guess, scene, exact=True), outputs)
            driven[motion.name] = _errors(task, shape, scene, _drive(shape, trainee, inputs), outputs)
    return _pooled(clips) | _pooled(exact, "exact_") | _pooled(driven, "driven_")


def _drive(shape: Layout, trainee: Trainee, inputs: np.ndarray) -> np.ndarray:
    answers: list[np.ndarray] = []
    for given in inputs:
        row = given.copy()
        if answers:
            row[7:49].reshape(6, 7)[:, 3:] = answers[-1].reshape(6, 4)
        x, scene = encode_inputs(shape, row)
        answers.append(decode(shape, trainee.predict(x), scene, exact=True))
    return np.array(answers)


def _baselines(
    task: str,
    shape: Layout,
    rows: Sequence[tuple[np.ndarray, np.ndarray]],
    tests: Sequence[tuple[Motion, np.ndarray, np.ndarray]],
) -> dict[str, Any]:
    """What needs no learning: a constant, a two-bone solver with its knee forward, the previous pose."""
    clips: dict[str, dict[str, dict[str, np.ndarray]]] = {}
    free = positions_layout("Pelvis", ["LeftFoot", "RightFoot"], ["LeftCalf", "RightCalf"], up=shape.up)
    for motion, inputs, outputs in tests:
        _, scene = encode_inputs(shape, inputs)
        if task == "legs":
            guesses = {
                "previous_pose": inputs[:, 7:49].reshape(-1, 6, 7)[..., 3:].reshape(-1, 24),
                "previous_pose_on_targets": decode(shape, np.zeros((len(inputs), 24)), scene),
            }
        elif task == "calf":
            guesses = {"constant": np.broadcast_to(np.concatenate([r[1] for r in rows]).mean(0), outputs.shape)}
        else:
            plain = Layout("free", free.inputs[:2], free.outputs, up=shape.up)
            in_pelvis = [encode_outputs(plain, r[1], encode_inputs(plain, r[0][:, :7])[1]) for r in rows]
            mean = np.concatenate(in_pelvis).mean(0)
            _, bare = encode_inputs(plain, inputs[:, :7])
            guesses = {
                "constant": decode(plain, np.broadcast_to(mean, outputs.shape), bare),
                "two_bone_forward": _forward_pole(motion, inputs),
            }
        for name, guess in guesses.items():
            clips.setdefault(name, {})[motion.name] = _errors(task, shape, scene, guess, outputs)
    return {name: _pooled(errors) for name, errors in clips.items()}


def _forward_pole(motion: Motion, inputs: np.ndarray) -> np.ndarray:
    """Knees of a two-bone solver whose pole is the pelvis' forward direction at rest."""
    shape = task_layout("knee", motion, rotations=False)
    size = (inputs.shape[1] - 7) // 2  # of a foot: its position comes first
    _, scene = encode_inputs(shape, inputs[:, [*range(10), *range(7 + size, 10 + size)]])
    left = motion.rest["LeftThigh"] - motion.rest["RightThigh"]
    local = np.cross(left, np.array(motion.up)) @ scene["limb.frame"]
    return decode(shape, local[..., [0, 2]].reshape(len(inputs), -1), scene)


def _errors(
    task: str, shape: Layout, scene: dict[str, np.ndarray], guess: np.ndarray, true: np.ndarray
) -> dict[str, np.ndarray]:
    """Distances of each frame, mean over the two legs."""
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
    out: dict[str, Any] = {}
    for key in next(iter(clips.values()), {}):
        out[prefix + key] = float(np.concatenate([c[key] for c in clips.values()]).mean())
        out[prefix + key + "_clips"] = {name: float(c[key].mean()) for name, c in clips.items()}
    return out


def _leg_rows(motion: Motion) -> tuple[np.ndarray, np.ndarray]:
    p, q = motion.positions, motion.rotations
    inputs = [p["Pelvis"][1:], q["Pelvis"][1:]]
    outputs, feet = [], []
    for side in SIDES:
        parent = "Pelvis"
        for bone in (side + b for b in ("Thigh", "Calf", "Foot")):
            back = quaternion_conjugate(q[parent])
            turn = quaternion_multiply(back, q[bone])
            inputs += [_turn(back, p[bone] - p[parent])[:-1], turn[:-1]]
            outputs.append(turn[1:])
            parent = bone
        foot = p[f"{side}Foot"]
        # the normal under the sole is the foot's own upright; the ground is hit where the foot hardly moves
        normal = _turn(q[f"{side}Foot"], np.array(motion.up))
        speed = np.linalg.norm(np.diff(foot, axis=0), axis=-1, keepdims=True) * motion.fps
        feet += [foot[1:], normal[1:], (speed < 0.3).astype(np.float64)]
    return np.concatenate(inputs + feet, axis=1), np.concatenate(outputs, axis=1)


def _turn(quaternion: np.ndarray, vector: np.ndarray) -> np.ndarray:
    out: np.ndarray = (matrix_from_quaternion(quaternion) @ np.asarray(vector)[..., None])[..., 0]
    return out


def _find(clip: Clip, side: str, bone: str) -> int:
    """Index of a bone by the usual names, side written before or after; ValueError where there is none."""
    plain = [name.rsplit(":", 1)[-1].lower().replace("_", "").replace(".", "").replace(" ", "") for name in clip.names]
    short = side[:1].lower()
    for name in _NAMES[bone]:
        for wanted in (side.lower() + name, name + side.lower(), short + name, name + short) if side else (name,):
            if wanted in plain:
                return plain.index(wanted)
    raise ValueError(
        f"{clip.name}: expected a bone for {side}{bone}, named like {_NAMES[bone]}; got {', '.join(clip.names)}"
    )
