# SPDX-License-Identifier: GPL-3.0-or-later
"""Characters of a game or an installation: no targets in the scene, no undo, only a pose each frame.

    body = game.Body(armature_object)
    body.aim("RightHand", (0.4, -0.5, 1.2))   # world
    body.step()                               # solve and write: a fraction of a millisecond
    body.release()                            # every bone as it was

:class:`Loop` calls a function many times a second, for as many bodies as it likes to step.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

import bpy
import numpy as np
from mathutils import Matrix, Quaternion, Vector

from ...ik.network import Network
from ...ik.solver import Goals, Solution
from ..host import control_rigs, rig_checks, runtime
from ..host.control_rigs import ControlRig
from . import pose_writing, scene_targets, state, takeover


class Body:
    """One character. Effectors are named by their roles on the reference rig: LeftHand, RightHand, LeftFoot, RightFoot, Head."""

    def __init__(self, ob: bpy.types.Object, net: Network | None = None) -> None:
        """Take the pose that ``ob`` has now as the one to move from; ``net``: the weights, by default those loaded.

        Raises ValueError, in words, for a rig that these weights do not fit or that something else moves.
        """
        net = state.weights() if net is None else net
        rig = rig_checks.usable(ob, net, controls=True)
        self.name = ob.name
        before = runtime.snapshot(ob)
        self._switches = takeover.begin(ob, rig, net).switches if isinstance(rig, ControlRig) else {}
        self._live = state.worked_out("", ob, rig, net, runtime.snapshot(ob), before)
        self.effectors = tuple(state.roles(self._live))
        count = len(self.effectors)
        self._rows = self._live.base_rows.copy()
        self._weights = np.zeros(count)
        self._turn_weights = np.zeros(count)
        self._free_root = True
        for foot in rig.skeleton.feet:  # feet stand until they are told otherwise
            self._weights[rig.skeleton.effectors.index(foot)] = 1
            self._turn_weights[rig.skeleton.effectors.index(foot)] = 1
        self.solution: Solution | None = None
        """The last answer: which targets were reached, how far the others were missed."""

    @property
    def object(self) -> bpy.types.Object:
        """The armature object. Raises ValueError where it was deleted."""
        ob = bpy.data.objects.get(self.name)
        if ob is None:
            raise ValueError(f"{self.name} is there no more")
        return ob

    def aim(
        self,
        effector: str,
        position: Sequence[float],
        rotation: Sequence[float] | None = None,
        weight: float = 1.0,
    ) -> None:
        """Send an effector to a place in the world [Blender units], turned as the quaternion ``rotation`` (w, x, y, z), or as it likes.

        ``weight`` 0 to 1. Raises ValueError for an unknown effector.
        """
        row = self._row(effector)
        self._put(row, position, rotation)
        self._weights[row] = weight
        self._turn_weights[row] = 0.0 if rotation is None else weight

    def free(self, effector: str) -> None:
        """Let an effector go as it likes. Raises ValueError for an unknown one."""
        row = self._row(effector)
        self._weights[row] = self._turn_weights[row] = 0.0

    def place(self, position: Sequence[float], rotation: Sequence[float] | None = None) -> None:
        """Hold the Hips at a place in the world, turned as the quaternion ``rotation`` or as now; by default they go with the body."""
        self._put(len(self.effectors), position, rotation)
        self._free_root = False

    def free_hips(self) -> None:
        """Let the Hips go with the body again."""
        self._rows[-1] = self._live.base_rows[-1]
        self._free_root = True

    def rebase(self) -> None:
        """Take the pose that the bones have now, an animation's for instance, as the one to move from."""
        ob = self.object
        self._live.base = runtime.snapshot(ob)
        state.anchor(self._live, ob)
        if self._free_root:
            self._rows[-1] = self._live.base_rows[-1]

    def step(self, write: bool = True) -> Solution:
        """Solve, and pose the bones; Blender shows it at its next update. Raises ValueError for targets that are no numbers."""
        ob, live = self.object, self._live
        rows, count = self._rows, len(self.effectors)
        turn = live.rest_turns[count].conjugated() @ Quaternion(rows[count, 3:].tolist())
        used = np.where(self._weights[:, None] > 0, rows[:count], live.base_rows[:count])
        phase, task = live.motion
        live.goals = Goals(
            used[:, :3],
            rows[count, :3],
            np.array(turn.to_exponential_map()),
            state.turned(live, used[:, 3:]),
            weights=self._weights,
            orientation_weights=self._turn_weights,
            phase=phase,
            task=task,
        )
        self.solution = live.session.solve(live.goals, state.STEPS, False, self._free_root)
        if write:
            pose_writing.write(ob, live.rig, self.solution.quaternions, self.solution.root_pos, plain=live.plain)
        return self.solution

    def release(self) -> None:
        """Every bone as it was when this began."""
        ob = bpy.data.objects.get(self.name)
        if ob is not None:
            control_rigs.switch_back(ob, self._switches)
            runtime.restore(ob, self._live.before)

    def _row(self, effector: str) -> int:
        if effector not in self.effectors:
            raise ValueError(f"effector: expected one of {', '.join(self.effectors)}, got {effector!r}")
        return self.effectors.index(effector)

    def _put(self, row: int, position: Sequence[float], rotation: Sequence[float] | None) -> None:
        turn = Quaternion(rotation) if rotation is not None else Quaternion()
        matrix = scene_targets.to_rig(self._live, self.object) @ Matrix.LocRotScale(Vector(position), turn, None)
        self._rows[row, :3] = matrix.translation
        if rotation is not None:
            self._rows[row, 3:] = matrix.to_quaternion()


class Loop:
    """Calls ``step(seconds since the last call)`` ``rate`` times a second while Blender's window runs.

    An exception ends the loop, and Blender prints it. In the background there is no clock: call ``tick`` yourself.
    """

    def __init__(self, step: Callable[[float], None], rate: float = 60.0) -> None:
        """Ready; nothing is called before :meth:`start`."""
        if not rate > 0:
            raise ValueError(f"rate: expected calls a second above 0, got {rate}")
        self.step, self.rate = step, rate
        self.seconds: deque[float] = deque(maxlen=600)
        """[s] that the last calls took."""
        self._last = 0.0
        self._timer = self.tick  # one object: Blender knows a timer by identity

    def start(self) -> None:
        """Begin; another file ends it."""
        self._last = time.perf_counter()
        if not bpy.app.timers.is_registered(self._timer):
            bpy.app.timers.register(self._timer)

    def stop(self) -> None:
        """End."""
        if bpy.app.timers.is_registered(self._timer):
            bpy.app.timers.unregister(self._timer)

    def tick(self) -> float:
        """One call; returns the seconds to the next."""
        began = time.perf_counter()
        self.step(began - self._last if self._last else 1 / self.rate)
        self._last = began
        took = time.perf_counter() - began
        self.seconds.append(took)
        return max(0.0, 1 / self.rate - took)
