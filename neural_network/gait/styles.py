# SPDX-License-Identifier: GPL-3.0-or-later
"""Styles: what crouch, limp, sneak and the others change in a healthy walk, and the sign by which each is known.

A style is no captured walk and no physics: it bends joints along the phase, and exact feet make a walk of it. Its *sign* is
what somebody outside can measure in the result (:func:`signs`), against the healthy walk of the same speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..core.contacts import foot_points, truth_contacts
from ..core.rotations import axis_angle_from_matrix, twist_about
from ..core.skeleton import Skeleton
from ..ik import foot_pins
from .parameters import STYLES, get
from .planting import CLEAR

Signs = dict[str, tuple[float, float, str]]


@dataclass(frozen=True)
class Changes:
    """What sliders and styles change, at phases (N); degrees, left foot first."""

    hip: np.ndarray
    """(2, N) more flexion."""
    knee: np.ndarray
    ankle: np.ndarray
    """(2, N) more dorsiflexion."""
    lean: np.ndarray
    """(N) the trunk more forward."""
    roll: np.ndarray
    """(N) the trunk more to the left."""
    head: float
    """The head more down."""
    arms: float
    """Factor of the arms' swing."""
    elbows: float
    """More flexion."""
    width: float
    """[leg lengths] more from foot to foot."""
    on_toes: float
    """0 to 1, see :func:`.planting.raised`."""
    clear: np.ndarray
    """(2) [leg lengths] see :func:`.planting.plant`."""
    lowered: np.ndarray
    """(2) see :func:`.planting.plant`."""
    lower: float
    """[leg lengths] the Hips are lower."""


def changes(values: np.ndarray, own: np.ndarray, shares: np.ndarray) -> Changes:
    """What the values (P) change; ``own`` (2, N) are phases since each foot's strike, ``shares`` (2) how long each stands."""
    w = {name: float(get(values, name)) for name in STYLES}
    off = shares[:, None]
    swing = np.sin(np.pi * np.clip((own - off) / (1 - off), 0, 1)) ** 2
    early = np.clip((own - off + 0.08) / (1 - off), 0, 1)
    lift = np.sin(np.pi * early**1.3) ** 2
    phase = own[0]
    limp = np.array([w["limp_left"], w["limp_right"]])[:, None]
    drop = np.array([w["foot_drop_left"], w["foot_drop_right"]])[:, None]
    knee_lift = float(get(values, "knee_lift"))
    march = 50 * w["march"]
    bent = 34 * w["crouch"] + 40 * w["sneak"]
    hip = get(values, "pelvis_tilt") + 0.56 * bent + (knee_lift + march + 20 * drop + 6 * w["proud"]) * lift
    knee = bent - 8 * w["crouch"] * swing + (1.25 * knee_lift + 1.2 * march + 24 * drop + 8 * w["proud"]) * lift
    ankle = 0.44 * bent - 26 * drop * swing - 24 * w["tiptoe"] - 4 * w["sneak"]
    knee = knee + 8 * limp * (1 - swing) + 6 * w["tired"] * (1 - swing) + 5 * w["tiptoe"]
    hip = hip + 4 * limp * (1 - swing) + 3 * w["tired"]
    ankle = ankle + 4 * limp * (1 - swing) + 3 * w["tired"] * (1 - swing)
    left_stands, right_stands = ((1 - s) for s in swing)
    roll = w["waddle"] * 14 * np.sin(2 * np.pi * phase - 0.35)
    roll = roll + 5 * (w["limp_left"] * left_stands - w["limp_right"] * right_stands)
    lean = get(values, "trunk_lean") + 10 * w["tired"] + 18 * w["sneak"] + 6 * w["crouch"] - 6 * w["proud"]
    lean = lean + 3 * w["limp_left"] * left_stands + 3 * w["limp_right"] * right_stands
    clear = CLEAR + 0.01 * w["march"] + drop[:, 0] * (0.002 - CLEAR - 0.01 * w["march"])
    return Changes(
        hip=hip,
        knee=knee,
        ankle=ankle,
        lean=np.broadcast_to(lean, phase.shape),
        roll=roll,
        head=float(get(values, "head")) + 14 * w["tired"] - 10 * w["sneak"] - 4 * w["proud"],
        arms=float(get(values, "arm_swing"))
        * (1 - 0.45 * w["tired"])
        * (1 + 0.6 * w["proud"])
        * (1 + 0.8 * w["march"])
        * (1 - 0.5 * w["sneak"]),
        elbows=float(get(values, "elbow")) + 20 * w["sneak"] + 10 * w["march"] - 4 * w["tired"],
        width=0.09 * w["waddle"] + 0.02 * w["crouch"],
        on_toes=w["tiptoe"],
        clear=clear,
        lowered=drop[:, 0],
        lower=0.03 * w["sneak"],
    )


# ---------------------------------------------------------------- signs


def look(rig: Skeleton, turns: np.ndarray, root: np.ndarray, fps: float) -> dict[str, np.ndarray]:
    """What somebody outside sees of whole cycles that go along -Y: local core rotations (F, J, 3, 3), Hips (F, 3) [m].

    The contacts are those of the truth rule; nothing is told by who made the motion.
    """
    turned, heads = foot_pins.forward(rig, turns, root)
    feet, toes = list(rig.feet), list(rig.toes)
    points = foot_points(rig, turned, heads)
    contact = truth_contacts(heads[:, feet], heads[:, toes], rig.foot_rest, fps=fps)
    trunk = heads[:, rig.names.index("NeckLower")] - heads[:, 0]
    thigh = [heads[:, leg[1]] - heads[:, leg[0]] for leg in rig.legs]
    knees = [np.degrees(_left_turn(turns[:, leg[1]])) for leg in rig.legs]
    hips = [-np.degrees(_left_turn(turns[:, leg[0]])) for leg in rig.legs]
    arms = [heads[:, rig.names.index(f"{s}ForeArm")] - heads[:, rig.names.index(f"{s}Arm")] for s in ("Left", "Right")]
    return {
        "contact": contact,
        "stance": contact.mean(axis=0),
        "knee": np.stack(knees, axis=1),
        "hip": np.stack(hips, axis=1),
        "lean": np.degrees(np.arctan2(-trunk[:, 1], trunk[:, 2])),
        "roll": np.degrees(np.arctan2(trunk[:, 0], trunk[:, 2])),
        "heel": points[:, :, 0, 2],
        "tip": points[:, :, 2, 2],
        "thigh": np.stack([np.degrees(np.arctan2(-v[:, 1], -v[:, 2])) for v in thigh], axis=1),
        "arm": np.stack([np.degrees(np.arctan2(-v[:, 1], -v[:, 2])) for v in arms], axis=1),
        "pelvis": heads[:, 0, 2],
    }


def _left_turn(turns: np.ndarray) -> np.ndarray:
    return twist_about(axis_angle_from_matrix(turns), np.array([1.0, 0, 0]))


def signs(
    rig: Skeleton, seen: dict[str, np.ndarray], healthy: dict[str, np.ndarray], seconds: float, usual: float
) -> Signs:
    """For every style (value, bar, unit) of its sign in ``seen`` against ``healthy``: reached where value >= bar.

    ``seconds`` and ``usual`` are those of a cycle of either. Styles of the right foot mirror those of the left.
    """
    out: Signs = {}
    for k, side in ((0, "left"), (1, "right")):
        shorter = 100 * float(healthy["stance"][k] - seen["stance"][k])
        out[f"limp_{side}"] = (shorter, 5.0, "% of the cycle shorter stance")
        more = float(seen["hip"][:, k].max() - healthy["hip"][:, k].max())
        air = _swing_clearance(seen["tip"][:, k], seen["contact"][:, k])
        out[f"foot_drop_{side}"] = (more if air <= 0.005 else -1000 * air, 5.0, "deg more hip flexion, tip within 5 mm")
    out["crouch"] = (float(seen["knee"].min()), 25.0, "deg least knee flexion")
    out["waddle"] = (float(np.ptp(seen["roll"])), 10.0, "deg range of the trunk to the sides")
    out["tiptoe"] = (1000 * float(seen["heel"].min()), 20.0, "mm lowest heel")
    out["march"] = (float(seen["thigh"].max(axis=0).min()), 60.0, "deg highest thigh")
    lower = 100 * float(healthy["pelvis"].mean() - seen["pelvis"].mean()) / rig.leg_length
    out["sneak"] = (lower, 8.0, "% of the leg lower pelvis")
    more_lean = float(seen["lean"].mean() - healthy["lean"].mean())
    out["tired"] = (more_lean if seconds > usual * 1.01 else -1.0, 5.0, "deg more lean, fewer steps a second")
    larger = float(np.ptp(seen["arm"], axis=0).mean() / np.ptp(healthy["arm"], axis=0).mean())
    out["proud"] = (larger if more_lean <= 0 else -1.0, 1.1, "times the arm swing, trunk not forward")
    out["run"] = (100 * float((~seen["contact"].any(axis=1)).mean()), 15.0, "% of the cycle without contact")
    return out


def _swing_clearance(tip: np.ndarray, contact: np.ndarray) -> float:
    """[m] the lowest that the tip comes in the middle half of its swings."""
    lows = []
    edges = np.flatnonzero(np.diff(contact.astype(int)))
    for a, b in pairwise(edges):
        if not contact[a + 1] and b - a >= 6:
            quarter = (b - a) // 4
            lows.append(tip[a + 1 + quarter : b + 1 - quarter].min())
    return float(np.mean(lows)) if lows else float("inf")
