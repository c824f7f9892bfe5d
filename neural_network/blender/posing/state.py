# SPDX-License-Identifier: GPL-3.0-or-later
"""What Live IK knows of a character: what lies in the file, and what is worked out from it.

What must survive undo, redo, saving and loading lies in the file, on the collection that holds the targets: the character,
the pose under Live IK, the pose to go back to. A :class:`Live` is only what is worked out from that, and can be made anew
at any time. Nothing of Blender's own is kept between two calls; objects are looked up by name.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import bpy
import numpy as np
from mathutils import Matrix, Quaternion

from ...core import rotations
from ...ik import network
from ...ik.network import Network
from ...ik.novelty import Explanation
from ...ik.single_pose import log_one, right_product
from ...ik.solver import Goals, Session, Solution, Solver
from ...motion.tasks import guess_task, task_value
from ..host import memory, rig_checks
from ..host.control_rigs import ControlRig
from ..host.rig import Rig
from ..host.runtime import CHANNELS

STEPS = 12  # exact steps at most; near targets need two or three, and the rest is then not taken
ROOT = "Hips"  # the role that the root's target has
BASE, BEFORE, BONES = "neural_ik_base", "neural_ik_before", "neural_ik_bones"
SWITCHES = "neural_ik_switches"  # what led the limbs of a control rig
FRAME = "neural_ik_frame"  # to which the base pose belongs


@dataclass
class Target:
    """One target and its settings, read from the file when they change."""

    name: str
    kind: str
    bone: str
    use: bool = False
    weight: float = 1.0
    turn_weight: float = 1.0
    pin: str = "NONE"
    led: bool = False
    """It is animated, parented or constrained: it leads, and is never placed."""


@dataclass
class Live:
    """One character under Live IK, worked out from its collection."""

    collection: str
    rig: Rig
    solver: Solver
    session: Session
    base: dict[str, np.ndarray]
    """All channels of all bones as they would be without Live IK."""
    before: dict[str, np.ndarray]
    """What Cancel writes back."""
    targets: list[Target] = field(default_factory=list)
    """The effectors' in the solver's order, the root's, then the hints."""
    base_rot: np.ndarray = field(default_factory=lambda: np.zeros(0))
    base_root: np.ndarray = field(default_factory=lambda: np.zeros(0))
    base_rows: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(E + 1, 7) places [m, rig space] and orientations of the effectors and the root in the base pose."""
    rest: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(E + 1, 4) rest orientations of the same."""
    unrest: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(E, 4, 4) quaternions (w, x, y, z), as rows, to those relative to the rest."""
    plain: bool = False
    """All bones hang on each other and turn by quaternions: a pose is written in one go."""
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0))
    turn_weights: np.ndarray = field(default_factory=lambda: np.zeros(0))
    rest_turns: list[Quaternion] = field(default_factory=list)
    steps: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(J, 4, 4) rest matrix of each bone relative to its parent's."""
    motion: tuple[float, float] = (0.0, 0.0)
    """Phase and task value of the base pose."""
    seen: np.ndarray | None = None
    """(T, 7) the targets at the last solve; None: take them as they are next time."""
    placed: np.ndarray | None = None
    """(T, 7) where Live IK itself put them, in the world."""
    touched: dict[str, np.ndarray] = field(default_factory=dict)
    """Where targets stood (7, in the world) that were switched on by being moved: back there, they are off again."""
    dirty: bool = True
    fresh: bool = False
    """It was just made from the file: nothing is solved before something moves."""
    written: dict[str, np.ndarray] | None = None
    """The channels before a frame change."""
    shown: np.ndarray | None = None
    """(J, 4) quaternions of the pose that was solved last."""
    shown_root: np.ndarray | None = None
    shift: np.ndarray | None = None
    """(E, 3) [m, rig space] by which a bake moves effectors that are on, so that standing feet do not slide."""
    goals: Goals | None = None
    solution: Solution | None = None
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=200))
    """[s] reading, solving and writing, of the last updates."""
    solves: int = 0
    problem: str = ""
    notes: list[str] = field(default_factory=list)
    why: Explanation | None = None
    why_for: Goals | None = None
    colors: dict[str, tuple[float, ...]] = field(default_factory=dict)

    @cached_property
    def into_rig(self) -> Matrix:
        """(4, 4) object space to rig space."""
        return Matrix((self.rig.turn * self.rig.unit).tolist()).to_4x4()

    @cached_property
    def out_of_rig(self) -> Matrix:
        """(4, 4) rig space to object space."""
        return Matrix((self.rig.turn.T / self.rig.unit).tolist()).to_4x4()

    @property
    def latency(self) -> float:
        """[s] median of the last updates; 0 before the first."""
        return float(np.median(self.seconds)) if self.seconds else 0.0


lives: dict[str, Live] = {}
"""By the name of the collection."""


# ---- in the file


def collections() -> list[bpy.types.Collection]:
    """The collections of all characters under Live IK in this file."""
    every: Any = bpy.data.collections
    return [c for c in every if c.neural_ik_live.live]


def collection_of(ob: bpy.types.Object) -> bpy.types.Collection | None:
    """The collection with the targets of ``ob``; None where it is not live."""
    return next((c for c in collections() if settings_of(c).armature == ob), None)


def chosen(context: bpy.types.Context) -> bpy.types.Collection | None:
    """The collection that is meant: that of the active target or character, or the only one there is."""
    found = collections()
    active = context.active_object
    for collection in found:
        if active is not None and (active == settings_of(collection).armature or active.name in collection.objects):
            return collection
    return found[0] if len(found) == 1 else None


def settings_of(collection: Any) -> Any:
    """What the character that these targets belong to is set to."""
    return collection.neural_ik_live


def target_objects(collection: bpy.types.Collection) -> dict[tuple[str, str], bpy.types.Object]:
    """(kind, role) -> object."""
    found: dict[tuple[str, str], bpy.types.Object] = {}
    for ob in collection.objects:
        own: Any = ob
        settings = own.neural_ik_target
        if settings.kind != "NONE":
            found.setdefault((settings.kind, settings.bone), ob)
    return found


def weights() -> Network:
    """The network in memory, loaded first where there is none yet. Raises ValueError or OSError."""
    keep = memory.memory
    if keep.network is None:
        path, shipped = memory.weights_to_load()
        if not path.exists():
            raise ValueError("no weights: press Train, or Load Weights, first")
        keep.network = network.load(path)
        keep.network_from = "came with Neural IK" if shipped else path.name
    return keep.network


def changed(owner: bpy.types.ID) -> None:
    """A setting changed on a target or a collection: solve at Blender's next update."""
    for live in lives.values():
        collection = bpy.data.collections.get(live.collection)
        if collection is None or not (owner == collection or owner.name in collection.objects):
            continue
        live.dirty = True
        ob = settings_of(collection).armature
        if ob is not None:
            ob.update_tag(refresh={"OBJECT"})


def store(collection: Any, key: str, channels: dict[str, np.ndarray]) -> None:
    """Keep channels in the file."""
    collection[key] = np.concatenate([channels[name] for name in CHANNELS]).astype(np.float64).tolist()


def loaded(collection: Any, key: str) -> dict[str, np.ndarray]:
    """Channels kept in the file, of as many bones as there were."""
    flat = np.array(collection[key], np.float32)
    count = len(flat) // sum(CHANNELS.values())
    out, at = {}, 0
    for name, size in CHANNELS.items():
        out[name] = flat[at : at + count * size].copy()
        at += count * size
    return out


def load(collection: Any, key: str, rig: Rig) -> dict[str, np.ndarray]:
    """Channels kept in the file. Raises ValueError where the rig has other bones now."""
    channels = loaded(collection, key)
    if len(channels["scale"]) != 3 * len(rig.bones):
        raise ValueError("bones were added or deleted since Live IK began: Cancel, and start again")
    return channels


# ---- worked out


def worked_out(
    name: str,
    ob: bpy.types.Object,
    rig: Rig,
    net: Network,
    base: dict[str, np.ndarray],
    before: dict[str, np.ndarray],
    own_limits: bool = False,
) -> Live:
    """Everything that solving needs, for a pose to build on and one to go back to."""
    rig = rig_checks.limited(ob, rig, net, own_limits)
    solver = Solver(net, rig.skeleton)
    live = Live(name, rig, solver, solver.session(), base, before)
    skeleton = rig.skeleton
    ends = [*skeleton.effectors, 0]
    live.rest = rotations.quaternion_from_matrix(skeleton.rest_arm[ends, :3, :3])
    live.rest_turns = [Quaternion(q) for q in live.rest.tolist()]
    live.unrest = np.stack([right_product(q) for q in rotations.quaternion_conjugate(live.rest[:-1])])
    live.plain = (
        not isinstance(rig, ControlRig) and rig.simple and all(rig.modes[b] == "QUATERNION" for b in rig.index.tolist())
    )
    live.steps = skeleton.rest_arm.copy()
    live.steps[1:] = np.linalg.inv(skeleton.rest_arm[skeleton.parents[1:]]) @ skeleton.rest_arm[1:]
    anchor(live, ob)
    return live


def anchor(live: Live, ob: bpy.types.Object) -> None:
    """Build on the base pose: the network then only changes it."""
    anchor_at(live, ob, *rig_checks.pose_of(ob, live.rig, live.base))


def anchor_at(live: Live, ob: bpy.types.Object, rot: np.ndarray, root: np.ndarray) -> None:
    """Build on a pose: rot_local (J, 3), head of the Hips (3) [m, rig space]."""
    live.base_rot, live.base_root = rot, root
    posed = pose_matrices(live, rotations.matrix_from_axis_angle(live.base_rot), live.base_root)
    ends = [*live.rig.skeleton.effectors, 0]
    live.base_rows = np.concatenate([posed[ends, :3, 3], rotations.quaternion_from_matrix(posed[ends, :3, :3])], axis=1)
    live.motion = phase, task = motion(ob)
    rows = live.base_rows
    goals = Goals(rows[:-1, :3], live.base_root, live.base_rot[0], turned(live, rows[:-1, 3:]), phase=phase, task=task)
    live.session.anchor(goals, live.base_rot)


def motion(ob: bpy.types.Object) -> tuple[float, float]:
    """Phase and task value as timeline and action tell them; a character without an action stands still at phase 0."""
    data = ob.animation_data
    action: Any = data.action if data is not None else None
    if action is None:
        return 0.0, task_value("locomotion")
    start, end = action.frame_range
    scene = bpy.context.scene
    phase = (scene.frame_current_final - start) / max(end - start, 1e-6)
    task = action.neural_ik.task
    name = guess_task(action.name) if task == "GUESS" else task
    return float(min(max(phase, 0.0), 1.0)), task_value(name)


def pose_matrices(live: Live, turns: np.ndarray, root: np.ndarray) -> np.ndarray:
    """(J, 4, 4) [m, rig space] of rot_local as matrices (J, 3, 3): forward_kinematics.armature_matrices for one pose, sooner."""
    own = np.zeros((len(turns), 4, 4))
    own[:, :3, :3], own[:, 3, 3] = turns, 1
    own = live.steps @ own
    own[0, :3, 3] = root
    for j, parent in enumerate(live.rig.skeleton.parents.tolist()):
        if parent >= 0:
            own[j] = own[parent] @ own[j]
    return own


def turned(live: Live, quaternions: np.ndarray) -> np.ndarray:
    """log(R R_rest^T) (E, 3) [rad] of the effectors' orientations (E, 4)."""
    away = np.matmul(quaternions[:, None, :], live.unrest)[:, 0]
    return np.array([log_one(*q) for q in away.tolist()])


def roles(live: Live) -> list[str]:
    """The effectors by their roles."""
    known = live.rig.roles
    return [known[e] if e < len(known) else live.rig.skeleton.names[e] for e in live.rig.skeleton.effectors]


def explain(live: Live) -> Explanation | None:
    """Why this pose; worked out once for each solve, when somebody asks."""
    if live.goals is None:
        return None
    if live.why_for is not live.goals:
        live.why = live.solver.explain(live.goals)
        live.why_for = live.goals
    return live.why
