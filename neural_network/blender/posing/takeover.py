# SPDX-License-Identifier: GPL-3.0-or-later
"""Taking over a control rig: its FK controls are moved to the pose that is shown, whatever controlled the body before."""

from __future__ import annotations

from dataclasses import dataclass, replace

import bpy
import numpy as np

from ...core import rotations
from ...ik.network import Network
from ...ik.solver import REACHED, Goals
from ..host import control_rigs, runtime
from ..host.control_rigs import ControlRig
from .state import MAX_STEPS, LiveCharacter, anchor_to, build, effector_rotations

CLOSE = 1e-5  # [m]: hands, feet and head that FK puts this near to the shown pose need no solve
NOTICEABLE = np.radians(2)  # a bone that turned by more to keep hands and feet in place is reported
NUDGE = 0.1  # [rad] about each axis: the rotation of every bone in the test of the controls


@dataclass(frozen=True)
class Takeover:
    """The pose that the controls were moved to, and the state of the switches before."""

    quaternions: np.ndarray
    """(J, 4) rot_local."""
    root: np.ndarray
    """(3) [m, rig space] the root's head."""
    switches: dict[str, float]
    """The IK/FK switches before: bone -> value."""
    note: str
    """What of the shown pose could not be kept; empty if all of it was."""


def begin(ob: bpy.types.Object, rig: ControlRig, net: Network) -> Takeover:
    """Take over, after a test that the controls move the bones as expected. Raises ValueError if they do not."""
    channels = runtime.snapshot(ob)
    live = build("", ob, rig, net, channels, channels)
    taken = take(live, ob, rig)
    nudge = rotations.quaternion_from_axis_angle(np.full(3, NUDGE))
    deviation = ""
    for quaternions in (rotations.quaternion_multiply(taken.quaternions, nudge), taken.quaternions):
        control_rigs.apply(ob, rig, quaternions, taken.root)
        bpy.context.view_layer.update()
        deviation = deviation or control_rigs.deviation(ob, rig, quaternions, taken.root)
    if not deviation:
        return taken
    control_rigs.switch_back(ob, taken.switches)
    runtime.restore(ob, channels)
    bpy.context.view_layer.update()
    raise ValueError(
        f"the FK controls of {ob.name} do not move its bones as expected: {deviation}. Clear the scale of its controls"
        " (Alt S), mute everything else that moves its bones, then try again"
    )


def take(live: LiveCharacter, ob: bpy.types.Object, rig: ControlRig) -> Takeover:
    """Move the controls to the pose that is shown and switch the limbs to FK; shown at Blender's next update.

    IK may stretch or shorten limbs and FK cannot: hands, feet and head then stay in place, and elbows and knees move.
    """
    live = replace(live, session=live.solver.session())  # the caller's session keeps its anchor
    rot, root = runtime.read_pose(ob, rig)
    anchor_to(live, ob, rot.astype(np.float64), root)
    bones = [rig.index[e] for e in rig.skeleton.effectors]
    heads = np.array([ob.pose.bones[int(b)].head for b in bones]) @ rig.turn.T * rig.unit
    effectors = live.base_transforms[:-1]
    shown = quaternions = rotations.quaternion_from_axis_angle(live.base_rot)
    error = np.linalg.norm(heads - effectors[:, :3], axis=1)
    if error.max() > CLOSE:
        phase, task = live.motion
        goals = Goals(heads, root, live.base_rot[0], effector_rotations(live, effectors[:, 3:]), phase=phase, task=task)
        solution = live.session.solve(goals, MAX_STEPS, False, False)
        quaternions, error = solution.quaternions, solution.error
    switches = control_rigs.switch(ob, rig)
    control_rigs.apply(ob, rig, quaternions, root)
    return Takeover(quaternions, root, switches, _note(rig, shown, quaternions, error))


def _note(rig: ControlRig, shown: np.ndarray, quaternions: np.ndarray, error: np.ndarray) -> str:
    """What happened to limbs that IK had stretched or shortened; empty if nothing noticeable."""
    worst = int(error.argmax())
    if error[worst] > REACHED:
        role = rig.roles[rig.skeleton.effectors[worst]]
        return f"IK had stretched a limb, which FK cannot: {role} is {error[worst] * 1000:.0f} mm off"
    angles = rotations.geodesic_angle(*(rotations.matrix_from_quaternion(q) for q in (shown, quaternions)))
    most = int(angles.argmax())
    if angles[most] < NOTICEABLE:
        return ""
    degrees = np.degrees(angles[most])
    return f"IK had stretched or shortened limbs, which FK cannot: {rig.roles[most]} turned by {degrees:.0f} degrees"
