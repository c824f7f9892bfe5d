# SPDX-License-Identifier: GPL-3.0-or-later
"""A control rig taken over: its FK controls put where the body is shown, whatever led it before."""

from __future__ import annotations

from dataclasses import dataclass, replace

import bpy
import numpy as np

from ...core import rotations
from ...ik.network import Network
from ...ik.solver import REACHED, Goals
from ..host import control_rigs, runtime
from ..host.control_rigs import ControlRig
from .state import STEPS, Live, anchor_at, turned, worked_out

KEPT = 1e-5  # [m] hands, feet and head this near to where they are shown need no solve
GIVES = np.radians(2)  # a bone that turns by more, so that hands and feet stay, is told
NUDGE = 0.1  # [rad] that each bone is turned on trial about each axis


@dataclass(frozen=True)
class Taken:
    """A pose that the controls were put to, and what led the body before."""

    quaternions: np.ndarray
    """(J, 4) rot_local."""
    root: np.ndarray
    """(3) [m, rig space] head of the Hips."""
    switches: dict[str, float]
    note: str
    """What could not be kept, in words; else empty."""


def begin(ob: bpy.types.Object, rig: ControlRig, net: Network) -> Taken:
    """Take over, after a trial whether the controls lead the bones. Raises ValueError, in words, where they do not."""
    channels = runtime.snapshot(ob)
    live = worked_out("", ob, rig, net, channels, channels)
    taken = take(live, ob, rig)
    nudge = rotations.quaternion_from_axis_angle(np.full(3, NUDGE))
    off = ""
    for quaternions in (rotations.quaternion_multiply(taken.quaternions, nudge), taken.quaternions):
        control_rigs.apply(ob, rig, quaternions, taken.root)
        bpy.context.view_layer.update()
        off = off or control_rigs.astray(ob, rig, quaternions, taken.root)
    if not off:
        return taken
    control_rigs.switch_back(ob, taken.switches)
    runtime.restore(ob, channels)
    bpy.context.view_layer.update()
    raise ValueError(
        f"the FK controls of {ob.name} do not lead its bones: {off}. Clear the scale of its controls (Alt S), mute what else"
        " moves its bones, then try again"
    )


def take(live: Live, ob: bpy.types.Object, rig: ControlRig) -> Taken:
    """Put the controls where the body is shown now, limbs by FK. Blender must then update.

    IK stretches and shortens limbs, and FK does not: hands, feet and head stay where they are, elbows and knees give way.
    """
    live = replace(live, session=live.solver.session())  # what is anchored to stays so
    rot, root = runtime.read_pose(ob, rig)
    anchor_at(live, ob, rot.astype(np.float64), root)
    ends = [rig.index[e] for e in rig.skeleton.effectors]
    heads = np.array([ob.pose.bones[int(b)].head for b in ends]) @ rig.turn.T * rig.unit
    rows = live.base_rows[:-1]
    shown = quaternions = rotations.quaternion_from_axis_angle(live.base_rot)
    error = np.linalg.norm(heads - rows[:, :3], axis=1)
    if error.max() > KEPT:
        phase, task = live.motion
        goals = Goals(heads, root, live.base_rot[0], turned(live, rows[:, 3:]), phase=phase, task=task)
        solution = live.session.solve(goals, STEPS, False, False)
        quaternions, error = solution.quaternions, solution.error
    switches = control_rigs.switch(ob, rig)
    control_rigs.apply(ob, rig, quaternions, root)
    return Taken(quaternions, root, switches, _note(rig, shown, quaternions, error))


def _note(rig: ControlRig, shown: np.ndarray, quaternions: np.ndarray, error: np.ndarray) -> str:
    """What became of limbs that IK had stretched or shortened."""
    worst = int(error.argmax())
    if error[worst] > REACHED:
        role = rig.roles[rig.skeleton.effectors[worst]]
        return f"IK had stretched a limb, and FK does not: {role} is {error[worst] * 1000:.0f} mm off"
    step = rotations.quaternion_multiply(rotations.quaternion_conjugate(shown), quaternions)
    turned_by = np.linalg.norm(rotations.axis_angle_from_quaternion(step), axis=1)
    most = int(turned_by.argmax())
    if turned_by[most] < GIVES:
        return ""
    degrees = np.degrees(turned_by[most])
    return f"IK had stretched or shortened limbs, and FK does not: {rig.roles[most]} gave way by {degrees:.0f} degrees"
