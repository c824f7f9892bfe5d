# SPDX-License-Identifier: GPL-3.0-or-later
"""Characters of games and installations: no targets in the scene and no undo, only a new pose every frame.

    body = game.Body(armature_object)
    body.aim("RightHand", (0.4, -0.5, 1.2))   # world space
    body.step()                               # solve and write the pose: a fraction of a millisecond
    body.release()                            # restore every bone

:class:`Loop` calls a function at a fixed rate, which may step any number of bodies.
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
from ..host import control_rigs, proportions, rig_checks, runtime
from ..host.characters import weights_for
from ..host.control_rigs import ControlRig
from . import pose_writing, scene_targets, solving, state, takeover


class Body:
    """One character. Its effectors go by their roles: LeftHand, RightHand, LeftFoot, RightFoot, Head; a creature's by bone name."""

    def __init__(self, ob: bpy.types.Object, net: Network | None = None) -> None:
        """Start from the current pose of ``ob``, with the weights ``net``, by default those that are loaded.

        Raises ValueError for a rig that the weights do not fit, or whose bones constraints or drivers move.
        """
        net = weights_for(ob) if net is None else net
        rig = rig_checks.usable(ob, net, controls=True)
        self.name = ob.name
        before = runtime.snapshot(ob)
        self._switches = takeover.begin(ob, rig, net).switches if isinstance(rig, ControlRig) else {}
        self._live = state.build("", ob, rig, net, runtime.snapshot(ob), before)
        self.effectors = tuple(state.effector_roles(self._live))
        count = len(self.effectors)
        self._transforms = self._live.base_transforms.copy()
        self._weights = np.zeros(count)
        self._turn_weights = np.zeros(count)
        self._free_root = True
        for foot in rig.skeleton.feet:  # feet stay where they are until they are aimed or freed
            self._weights[rig.skeleton.effectors.index(foot)] = 1
            self._turn_weights[rig.skeleton.effectors.index(foot)] = 1
        self.solution: Solution | None = None
        """The last solution: which targets were reached, and by how much the others were missed; None before the first step."""

    @property
    def object(self) -> bpy.types.Object:
        """The armature object. Raises ValueError if it was deleted."""
        ob = bpy.data.objects.get(self.name)
        if ob is None:
            raise ValueError(f"{self.name} was deleted or renamed")
        return ob

    def aim(
        self,
        effector: str,
        position: Sequence[float],
        rotation: Sequence[float] | None = None,
        weight: float = 1.0,
    ) -> None:
        """Set an effector's goal.

        Args:
            effector: one of ``effectors``.
            position: of its bone's head [Blender units, world space].
            rotation: orientation of the bone as a quaternion (w, x, y, z) in world space; None leaves it free.
            weight: from 0 (free) to 1 (exact).

        Raises ValueError for an unknown effector.
        """
        row = self._row(effector)
        self._put(row, position, rotation)
        self._weights[row] = weight
        self._turn_weights[row] = 0.0 if rotation is None else weight

    def free(self, effector: str) -> None:
        """Remove an effector's goal: it moves with the body. Raises ValueError for an unknown one."""
        row = self._row(effector)
        self._weights[row] = self._turn_weights[row] = 0.0

    def place(self, position: Sequence[float], rotation: Sequence[float] | None = None) -> None:
        """Hold the Hips at a position in world space, with the orientation ``rotation`` (w, x, y, z), by default the current one."""
        self._put(len(self.effectors), position, rotation)
        self._free_root = False

    def free_hips(self) -> None:
        """Let the Hips move with the body again, as they do at first."""
        self._transforms[-1] = self._live.base_transforms[-1]
        self._free_root = True

    def rebase(self) -> None:
        """Start from the current pose of the bones from now on, such as an animation's."""
        ob = self.object
        self._live.base = runtime.snapshot(ob)
        state.anchor(self._live, ob)
        if self._free_root:
            self._transforms[-1] = self._live.base_transforms[-1]

    def step(self, write: bool = True) -> Solution:
        """Solve, and pose the bones unless ``write`` is false; Blender shows the pose at its next update.

        Bones between the controlled ones, scales and locations are taken as they are posed now. Raises ValueError for goals with
        NaN or infinity, and for legs that are scaled to nothing.
        """
        ob, live = self.object, self._live
        self._take_lengths(ob)
        root = self._transforms[-1]
        turn = live.rest_rotations[-1].conjugated() @ Quaternion(root[3:].tolist())
        used = np.where(self._weights[:, None] > 0, self._transforms[:-1], live.base_transforms[:-1])
        phase, task = live.motion
        live.goals = Goals(
            used[:, :3],
            root[:3],
            np.array(turn.to_exponential_map()),
            state.effector_rotations(live, used[:, 3:]),
            weights=self._weights,
            orientation_weights=self._turn_weights,
            phase=phase,
            task=task,
        )
        fit = state.Fit()
        while True:
            found = live.session.solve(live.goals, state.MAX_STEPS, False, self._free_root)
            if not live.uneven or not fit.again(
                live, pose_writing.posed_as_written(ob, live.rig, found.quaternions, found.root_pos)
            ):
                break
        self.solution = found
        if write:
            pose_writing.write(ob, live.rig, found.quaternions, found.root_pos, direct=live.direct)
        return found

    def missed(self) -> dict[str, float]:
        """[m] how far each effector with a goal is from it on Blender's own matrices, so after Blender's update of the last step."""
        shown = solving.shown_heads(self._live, self.object)[:-1]
        off = np.linalg.norm(shown - self._transforms[:-1, :3], axis=1)
        return {name: float(d) for name, d, w in zip(self.effectors, off, self._weights, strict=True) if w > 0}

    def _take_lengths(self, ob: bpy.types.Object) -> None:
        """Take in bones between controlled ones, scales and locations that have changed since the last step."""
        live, now = self._live, runtime.snapshot(ob)
        if not np.array_equal(proportions.watched(live.at_rest, now), live.watched):
            live.base = proportions.take_watched(live.at_rest, live.base, now)
            state.anchor(live, ob)

    def release(self) -> None:
        """Restore every bone to its pose before this character was created."""
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
        matrix = scene_targets.world_to_rig(self._live, self.object) @ Matrix.LocRotScale(Vector(position), turn, None)
        self._transforms[row, :3] = matrix.translation
        if rotation is not None:
            self._transforms[row, 3:] = matrix.to_quaternion()


class Loop:
    """Calls ``step(seconds since the last call)`` ``rate`` times a second, from a timer of Blender's.

    An exception stops the loop and is printed by Blender. Timers do not run in background mode: call ``tick`` there.
    """

    def __init__(self, step: Callable[[float], None], rate: float = 60.0) -> None:
        """Nothing is called before :meth:`start`. Raises ValueError for a rate that is not positive."""
        if not rate > 0:
            raise ValueError(f"rate: expected a number of calls per second above 0, got {rate}")
        self.step, self.rate = step, rate
        self.seconds: deque[float] = deque(maxlen=600)
        """[s] durations of the last calls."""
        self._last = 0.0
        self._timer = self.tick  # kept, because Blender identifies a timer by its function object

    def start(self) -> None:
        """Start calling; loading another file stops it."""
        self._last = time.perf_counter()
        if not bpy.app.timers.is_registered(self._timer):
            bpy.app.timers.register(self._timer)

    def stop(self) -> None:
        """Stop calling."""
        if bpy.app.timers.is_registered(self._timer):
            bpy.app.timers.unregister(self._timer)

    def tick(self) -> float:
        """Call ``step`` once; returns the seconds until the next call is due."""
        began = time.perf_counter()
        self.step(began - self._last if self._last else 1 / self.rate)
        self._last = began
        took = time.perf_counter() - began
        self.seconds.append(took)
        return max(0.0, 1 / self.rate - took)
