# SPDX-License-Identifier: GPL-3.0-or-later
"""The parameters of a gait: what an animator sets, with unit, range and default, and the walk that follows from them.

Values travel as a vector (..., P) in the order of :data:`TABLE`; networks see them normalised, (p - least) / (most - least).
Lengths are those of the reference rig (legs of 0.945 m): on another body they scale with its legs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.files import parse_json, read_text
from ..core.messages import short

LEG = 0.945
"""[m] legs of the reference rig."""
GRAVITY = 9.81  # [m/s^2]
SCHEMA = 1


@dataclass(frozen=True)
class Parameter:
    """One slider."""

    name: str
    label: str
    unit: str
    least: float
    most: float
    default: float
    words: str
    """What it does, for a tooltip."""
    group: str
    """walk, body, style or proportions."""


def _style(name: str, label: str, words: str) -> Parameter:
    return Parameter(name, label, "1", 0, 1, 0, words, "style")


def _proportion(name: str, words: str) -> Parameter:
    return Parameter(name, name.capitalize(), "1", 0.8, 1.2, 1, words, "proportions")


TABLE = (
    Parameter("step_length", "Step Length", "m", 0.3, 1.7, 0.718, "From one foot's heel to the other's", "walk"),
    Parameter("cadence", "Cadence", "steps/s", 0.8, 3.4, 1.82, "Steps a second, of both feet together", "walk"),
    Parameter("step_width", "Step Width", "m", 0.0, 0.3, 0.11, "From heel to heel, across the way", "walk"),
    Parameter("turn", "Turn", "rad/m", -1.0, 1.0, 0.0, "How much the way bends; positive is to the left", "walk"),
    Parameter("slope", "Slope", "deg", -15, 15, 0, "Uphill is positive", "walk"),
    Parameter("trunk_lean", "Lean", "deg", -15, 30, 0, "How much more the trunk leans forward than usual", "body"),
    Parameter("bounce", "Bounce", "1", 0, 2, 1, "How much of the hips' way up and down there is", "body"),
    Parameter("arm_swing", "Arm Swing", "1", 0, 2.5, 1, "How far the arms swing, beside what is usual", "body"),
    Parameter("hip_sway", "Hip Sway", "1", 0, 3, 1, "How far the hips go and tilt from side to side", "body"),
    Parameter("knee_lift", "Knee Lift", "deg", 0, 45, 0, "How much more the thigh is lifted in swing", "body"),
    Parameter("toe_out", "Toe Out", "deg", -20, 40, 5, "Where the feet point; positive is outwards", "body"),
    Parameter(
        "asymmetry", "Asymmetry", "1", -0.1, 0.1, 0, "Share of the cycle by which left stance is shorter", "body"
    ),
    Parameter("elbow", "Elbows", "deg", -20, 70, 0, "How much more the elbows are bent", "body"),
    Parameter("arm_out", "Arms Out", "deg", -15, 35, 0, "How much farther the arms are away from the body", "body"),
    Parameter("head", "Head Down", "deg", -25, 30, 0, "How much more the head looks down", "body"),
    Parameter(
        "pelvis_tilt",
        "Hips Tilt",
        "deg",
        -12,
        12,
        0,
        "How much more the hips tilt forward, legs and trunk kept",
        "body",
    ),
    _style("crouch", "Crouch", "Knees stay bent"),
    _style("waddle", "Waddle", "The trunk leans over each foot that stands, feet apart"),
    _style("limp_left", "Limp Left", "Leaves the left foot soon, as if it hurt"),
    _style("limp_right", "Limp Right", "Leaves the right foot soon, as if it hurt"),
    _style("foot_drop_left", "Foot Drop Left", "The left foot hangs in swing, so the thigh is lifted more"),
    _style("foot_drop_right", "Foot Drop Right", "The right foot hangs in swing, so the thigh is lifted more"),
    _style("tiptoe", "Tiptoe", "Heels never touch the floor"),
    _style("tired", "Tired", "Leans, looks down, takes fewer steps a second, lets the arms hang"),
    _style("proud", "Proud", "Upright, with a large arm swing"),
    _style("sneak", "Sneak", "Low, bent forward, arms quiet"),
    _style("march", "March", "Thighs are lifted high and arms swing far"),
    _style("run", "Run", "Runs: for a part of each step no foot is on the ground"),
    _proportion("thigh", "Length of the thighs, beside the reference rig's"),
    _proportion("shank", "Length of the shins, beside the reference rig's"),
    _proportion("arm", "Length of the arms, beside the reference rig's"),
    _proportion("torso", "Length of the trunk, beside the reference rig's"),
)
"""Every parameter, in the order of a vector."""

NAMES = tuple(p.name for p in TABLE)
INDEX = {name: i for i, name in enumerate(NAMES)}
STYLES = tuple(p.name for p in TABLE if p.group == "style")
PROPORTIONS = tuple(p.name for p in TABLE if p.group == "proportions")
LEAST = np.array([p.least for p in TABLE], float)
MOST = np.array([p.most for p in TABLE], float)
DEFAULT = np.array([p.default for p in TABLE], float)
MIRRORED = (("limp_left", "limp_right"), ("foot_drop_left", "foot_drop_right"))
SIGNED = ("turn", "asymmetry")
"""Parameters that change their sign in a mirror."""

SPEED = Parameter("speed", "Speed", "m/s", 0.45, 4.0, 1.307, "Sets step length and cadence as people do", "walk")
"""Stands for step length and cadence where neither is given."""
RUN_FROM = 2.2  # [m/s] above this nobody walks

# Schwartz et al., J. Biomech. 41 (2008): slow, free and fast walking, speed / sqrt(g L) and step length / L.
_WALK_SPEEDS, _WALK_STEPS = np.array([0.29, 0.429, 0.56]), np.array([0.64, 0.76, 0.85])
_WALK = np.polyfit(np.log(_WALK_SPEEDS), np.log(_WALK_STEPS), 1)
_STANCE = np.polyfit(1 / _WALK_SPEEDS, [0.62, 0.59, 0.58], 1)


def normalised(values: np.ndarray) -> np.ndarray:
    """Values (..., P) as shares (..., P) of their ranges."""
    return np.asarray((values - LEAST) / (MOST - LEAST))


def from_normalised(shares: np.ndarray) -> np.ndarray:
    """The values (..., P) of shares (..., P)."""
    return LEAST + shares * (MOST - LEAST)


def mirrored(values: np.ndarray) -> np.ndarray:
    """The values (..., P) of the walk seen in a mirror."""
    out = np.array(values, float)
    for a, b in MIRRORED:
        out[..., [INDEX[a], INDEX[b]]] = out[..., [INDEX[b], INDEX[a]]]
    out[..., [INDEX[name] for name in SIGNED]] *= -1
    return out


def get(values: np.ndarray, name: str) -> Any:
    """One parameter (...) of vectors (..., P)."""
    return values[..., INDEX[name]]


def speed(values: np.ndarray) -> np.ndarray:
    """[m/s] of vectors (..., P)."""
    return np.asarray(get(values, "step_length") * get(values, "cadence"))


def leg_of(values: np.ndarray) -> np.ndarray:
    """[m] length of the legs that the proportions of vectors (..., P) give the reference rig."""
    return np.asarray(0.4472 * get(values, "thigh") + (LEG - 0.4472) * get(values, "shank"))


def usual_step(
    metres_a_second: np.ndarray | float, leg: np.ndarray | float = LEG, run: np.ndarray | float = 0.0
) -> np.ndarray:
    """[m] the step that people take at a speed (...) with legs of ``leg`` (...) [m]; ``run`` 1: who runs.

    Walking: a power of the speed through the published slow, free and fast walks. Running: cadence grows little with speed
    (2.6 steps a second at 2 m/s, 2.9 at 4, for legs of 0.945 m), as in the captured runs.
    """
    leg = np.asarray(leg, float)
    pace = np.maximum(np.asarray(metres_a_second, float), 0.05) / np.sqrt(GRAVITY * leg)
    walked = np.exp(_WALK[1]) * pace ** _WALK[0] * leg
    ran = pace * np.sqrt(GRAVITY * leg) / ((2.3 + 0.456 * pace) * np.sqrt(LEG / leg))
    return np.asarray(walked + run * (ran - walked))


def at_speeds(values: np.ndarray, speeds: np.ndarray) -> np.ndarray:
    """Parameters (N, P) of the walk with parameters (P), or (N, P), at other speeds (N) [m/s].

    Step and cadence change as people's do; what the step has beyond the usual one of its speed it keeps. From 2.0 to 2.4 m/s a
    walk becomes a run.
    """
    out = np.array(np.broadcast_to(values, (len(speeds), len(NAMES))), float)
    walked, leg = speed(out), leg_of(out)
    faster = np.clip((speeds - RUN_FROM + 0.2) / 0.4, 0, 1)
    was_run = get(out, "run")
    run = np.where(walked > RUN_FROM, np.minimum(was_run, faster), np.maximum(was_run, faster))
    own = get(out, "step_length") / usual_step(walked, leg, was_run)
    out[:, INDEX["run"]] = run
    out[:, INDEX["step_length"]] = own * usual_step(speeds, leg, run)
    out[:, INDEX["cadence"]] = speeds / out[:, INDEX["step_length"]]
    return np.asarray(np.clip(out, LEAST, MOST))


def stance_share(values: np.ndarray) -> np.ndarray:
    """(..., 2) share of the cycle in which the left and the right foot stand.

    Walking: a + b / speed through the published slow, free and fast foot-offs.
    Running: from 0.36 at 2 m/s to 0.25 at 4 (captured: 0.27 at 3.5).
    """
    pace = speed(values) / np.sqrt(GRAVITY * leg_of(values))
    walked = np.clip(np.polyval(_STANCE, 1 / np.maximum(pace, 0.05)), 0.53, 0.78)
    ran = np.clip(0.476 - 0.177 * pace, 0.22, 0.38)
    both = walked + get(values, "run") * (ran - walked)
    shorter = get(values, "asymmetry") + 0.13 * (get(values, "limp_left") - get(values, "limp_right"))
    out: np.ndarray = np.stack([both - 0.75 * np.maximum(shorter, 0) + 0.25 * np.minimum(shorter, 0) * -1,
                                both + 0.75 * np.minimum(shorter, 0) + 0.25 * np.maximum(shorter, 0)], axis=-1)  # fmt: skip
    return out


def right_strike(values: np.ndarray) -> np.ndarray:
    """(...) phase at which the right foot strikes; the left one does at 0. A limp's good foot comes down early."""
    shorter = get(values, "asymmetry") + 0.13 * (get(values, "limp_left") - get(values, "limp_right"))
    return np.asarray(0.5 - 0.5 * shorter)


def cycle_seconds(values: np.ndarray) -> np.ndarray:
    """(...) [s] two steps; a tired walk has fewer steps a second, and they are longer."""
    return 2 / (get(values, "cadence") * (1 - 0.08 * get(values, "tired")))


def step(values: np.ndarray) -> np.ndarray:
    """(...) [m] the step that is taken: the speed is kept where a style changes the cadence."""
    return get(values, "step_length") / (1 - 0.08 * get(values, "tired"))


# ---------------------------------------------------------------- from names


def vector(
    given: Mapping[str, float], proportions: Mapping[str, float] | None = None, style: Mapping[str, float] | None = None
) -> np.ndarray:
    """The values (P) for parameters by name; what is not given has its default.

    ``speed`` sets step length and cadence as people of that leg length do, or the one of them that is not given. Above
    2.2 m/s somebody who is not told how runs. Raises ValueError for unknown names and values outside their range.
    """
    asked = {**dict(given), **dict(style or {}), **dict(proportions or {})}
    unknown = [name for name in asked if name not in INDEX and name != SPEED.name]
    if unknown:
        raise ValueError(f"parameters: no {short(unknown[0])!r}; there are speed, {', '.join(NAMES)}")
    for name, value in asked.items():
        entry = SPEED if name == SPEED.name else TABLE[INDEX[name]]
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"{name}: expected a number, got {short(str(value))}")
        if not entry.least - 1e-9 <= value <= entry.most + 1e-9:
            raise ValueError(f"{name}: expected {entry.least:g} to {entry.most:g} {entry.unit}, got {value:g}")
    out = DEFAULT.copy()
    for name, value in asked.items():
        if name in INDEX:
            out[INDEX[name]] = value
    if SPEED.name in asked:
        pace = float(asked[SPEED.name])
        if "step_length" in asked and "cadence" in asked:
            raise ValueError(
                "speed: expected at most two of speed, step_length and cadence, got all three; leave one out"
            )
        if pace > RUN_FROM and "run" not in asked:
            out[INDEX["run"]] = 1.0
        if "cadence" in asked:
            out[INDEX["step_length"]] = pace / out[INDEX["cadence"]]
        else:
            if "step_length" not in asked:
                out[INDEX["step_length"]] = usual_step(pace, leg_of(out), float(out[INDEX["run"]]))
            out[INDEX["cadence"]] = pace / out[INDEX["step_length"]]
    return np.asarray(np.clip(out, LEAST, MOST))


def named(values: np.ndarray, names: Iterable[str] = NAMES) -> dict[str, float]:
    """Parameters by name of one vector (P)."""
    return {name: float(values[INDEX[name]]) for name in names}


def read(path: Path) -> np.ndarray:
    """The values (P) of a file {"schema": 1, "params": {}, "proportions": {}, "style": {}}; ValueError for any other."""
    try:
        found = parse_json(read_text(path, "parameters"))
    except ValueError as error:
        raise ValueError(f"{path.name}: expected JSON ({error})") from None
    keys = ("schema", "params", "proportions", "style")
    if not isinstance(found, dict) or set(found) - set(keys):
        raise ValueError(f"{path.name}: expected an object with {', '.join(keys)}")
    if found.get("schema") != SCHEMA:
        raise ValueError(f'{path.name}: expected "schema": {SCHEMA}, got {short(str(found.get("schema")))}')
    groups = [found.get(key, {}) for key in keys[1:]]
    if not all(isinstance(group, dict) for group in groups):
        raise ValueError(f"{path.name}: expected params, proportions and style to be objects of numbers")
    try:
        return vector(groups[0], groups[1], groups[2])
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def to_json(values: np.ndarray) -> str:
    """The text of a file that :func:`read` reads, of one vector (P)."""
    walk = [p.name for p in TABLE if p.group in ("walk", "body")]
    groups: Sequence[tuple[str, Sequence[str]]] = (("params", walk), ("proportions", PROPORTIONS), ("style", STYLES))
    return json.dumps({"schema": SCHEMA, **{key: named(values, names) for key, names in groups}}, indent=1)
