# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of Live IK: what is stored in the .blend file, and what is computed from it.

Everything that must survive undo, redo, saving and loading is stored in the file, on the collection that holds the targets:
the character, its pose without Live IK, and the pose that Cancel restores. A :class:`LiveCharacter` is computed from that
and can be rebuilt at any time. No Blender object is kept between two calls; objects are looked up by name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import bpy
import numpy as np
from mathutils import Matrix, Quaternion

from ...core import forward_kinematics as fk
from ...core import quick_rotations as quick
from ...core import rotations
from ...ik import drag_session, other_bones
from ...ik.drag_session import DragSession
from ...ik.network import Network
from ...ik.novelty import Explanation
from ...ik.pose_judge import PoseJudge
from ...ik.solver import Goals, Session, Solution, Solver
from ...motion.tasks import guess_task, task_value
from ..host import proportions, rig_checks
from ..host.control_rigs import ControlRig
from ..host.rig import Rig
from ..host.runtime import CHANNELS
from .signature import Signature

MAX_STEPS = 12  # solver steps; targets that are near need two or three, and the solver then stops
FITS = 12  # solves of an update with uneven scales, whose lengths depend on the pose; three or four are usual
FITTED = 2e-5  # [leg lengths]: offsets that are this near to those of the solved pose are right
ROOT = "Hips"  # the role of the root's target
BESIDE = ("HINT", "CHEST", "LOOK")  # kinds of targets beside the effectors and the root: off and hidden at first
# Custom properties of the collection, stored in .blend files: never rename their values.
BASE, BEFORE, BONES = "neural_ik_base", "neural_ik_before", "neural_ik_bones"
SWITCHES = "neural_ik_switches"  # the IK/FK switches of a control rig before Live IK
ANSWER = "neural_ik_answer"  # what DragSession.restore needs
FRAME = "neural_ik_frame"  # the frame of the base pose


@dataclass
class Target:
    """A target and its settings, read from the file whenever they change."""

    name: str
    kind: str
    bone: str
    use: bool = False
    weight: float = 1.0
    turn_weight: float = 1.0
    pin: str = "NONE"
    turned: bool = False
    """It was turned since it was switched on."""
    driven: bool = False
    """It is animated, parented or constrained, so Live IK never moves it."""
    carried: bool = False
    """The body moves it: it is parented or constrained to it, such as to a prop in the other hand."""


@dataclass
class LiveCharacter:
    """One character under Live IK, computed from its collection."""

    collection: str
    at_rest: Rig
    """The rig with the offsets between its bones at rest."""
    rig: Rig
    """The rig with the offsets that its bones have in the base pose; see :mod:`..host.proportions`."""
    solver: Solver
    session: Session | DragSession
    base: dict[str, np.ndarray]
    """The base pose: all channels of all bones as they would be without Live IK."""
    before: dict[str, np.ndarray]
    """The channels that Cancel restores."""
    watched: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """The values that the offsets in ``rig`` were computed from."""
    uneven: bool = False
    """The offsets change with the solved pose, so they are computed again for each solve."""
    targets: list[Target] = field(default_factory=list)
    """The effectors in the solver's order, then the root, then the hints."""
    base_rot: np.ndarray = field(default_factory=lambda: np.zeros(0))
    base_root: np.ndarray = field(default_factory=lambda: np.zeros(0))
    base_transforms: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(E + 1, 7) positions [m, rig space] and quaternions of the effectors and the root in the base pose."""
    rest: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(E + 1, 4) their rest orientations as quaternions (w, x, y, z)."""
    rest_rotations: list[Quaternion] = field(default_factory=list)
    """The same as ``rest``, as Blender's own type."""
    relative_to_rest: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(E, 4, 4) matrices that make an effector's quaternion, a row vector, relative to its rest."""
    direct: bool = False
    """The controlled bones are direct children of each other and use quaternions: a pose is written in one call."""
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(E) position weights of the effectors."""
    turn_weights: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(E) their rotation weights."""
    motion: tuple[float, float] = (0.0, 0.0)
    """Phase and task value of the base pose."""
    solved_for: np.ndarray | None = None
    """(T, 7) the targets [m, rig space] at the last solve; None forces the next update to solve."""
    placed: np.ndarray | None = None
    """(T, 7) where Live IK last saw or put the targets, in world space."""
    given: dict[str, deque[tuple[float, ...]]] = field(default_factory=dict)
    """Quaternions (world space) that targets had without being turned by the user, by their name, the latest last."""
    touched: dict[str, np.ndarray] = field(default_factory=dict)
    """Targets that were switched on by being moved -> their previous transform (7), world space: moved back, they are off again."""
    dirty: bool = True
    """The targets' settings must be read again."""
    restored: bool = False
    """It was just rebuilt from the file: nothing is solved until something moves."""
    before_frame: dict[str, np.ndarray] | None = None
    """The channels just before a frame change."""
    shown: np.ndarray | None = None
    """(J, 4) quaternions of the pose that is shown."""
    shown_root: np.ndarray | None = None
    """(3) [m, rig space] the root's head in that pose."""
    wanted: np.ndarray | None = None
    """(E + 1, 3) [m, rig space] where the heads of the effectors and the root should be, as of the last solve."""
    written: np.ndarray | None = None
    """(E + 1, 3) [m, rig space] where Blender's rules put them with the pose that was last written."""
    errors: np.ndarray | None = None
    """(E + 1) [m] how far they are from where they should be; None before the first solve."""
    signature: Signature | None = None
    """The armature and everything else that may move its bones, as last checked."""
    shift: np.ndarray | None = None
    """(E, 3) [m, rig space] offsets that a bake adds to effectors that are on, so that planted feet do not slide."""
    goals: Goals | None = None
    ends: tuple[np.ndarray, np.ndarray] | None = None
    """Where the last solution puts the effectors, as Session.ends; None where that was not needed yet."""
    solution: Solution | None = None
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=200))
    """[s] time of the last updates, for reading, solving and writing."""
    solves: int = 0
    problem: str = ""
    """Why the last update failed; empty if it did not."""
    suspended: str = ""
    """Why Live IK waits, and what to do; empty while it solves."""
    blocked: str = ""
    """The constraint or driver that it waits for; empty if there is none."""
    off: np.ndarray | None = None
    """(E + 1) [m] how far Blender last showed the heads from where they were written."""
    times_off: int = 0
    """After how many solves in a row something else had moved them."""
    compared: int = 0
    """The number of solves when that was last looked at."""
    pending: bool = False
    """A pose was written that Blender has not evaluated yet."""
    overridden: str = ""
    """What puts the bones elsewhere than Live IK did; empty if nothing does."""
    notes: list[str] = field(default_factory=list)
    explanation: Explanation | None = None
    judge: PoseJudge | None = None
    """Of the poses of ``rig``; None until one is judged."""
    verdict: tuple[np.ndarray, str] | None = None
    """The quaternions that were judged last, and what is wrong with them."""
    explained: Goals | None = None
    """The goals that ``explanation`` belongs to."""
    colors: dict[str, tuple[float, ...]] = field(default_factory=dict)

    @cached_property
    def into_rig(self) -> Matrix:
        """(4, 4) from object space to rig space."""
        return Matrix((self.rig.turn * self.rig.unit).tolist()).to_4x4()

    @cached_property
    def out_of_rig(self) -> Matrix:
        """(4, 4) from rig space to object space."""
        return Matrix((self.rig.turn.T / self.rig.unit).tolist()).to_4x4()

    @property
    def latency(self) -> float:
        """[s] median time of the last updates; 0 before the first."""
        return float(np.median(self.seconds)) if self.seconds else 0.0


characters: dict[str, LiveCharacter] = {}
"""The characters under Live IK, by the name of their collection."""

unsolvable: dict[str, str] = {}
"""Collections whose character cannot be computed from the file -> why, in words."""

replaced: set[str] = set()
"""Those among them whose bones were replaced by others: they are not tried again before undo, redo or loading."""

_pauses: list[str] = []


@contextmanager
def paused() -> Iterator[None]:
    """Meanwhile no update, frame change or render solves anything: the bones show their animation."""
    _pauses.append("")
    try:
        yield
    finally:
        _pauses.pop()


def is_paused() -> bool:
    """Whether somebody paused all characters."""
    return bool(_pauses)


# ---- stored in the file


def collections() -> list[bpy.types.Collection]:
    """The collections of all characters under Live IK that belong to this file."""
    every: Any = bpy.data.collections
    return [c for c in every if c.neural_ik_live.live and c.library is None and c.override_library is None]


def linked_note() -> str:
    """Characters that were live when the file they are linked from was saved, in words; empty if there are none."""
    every: Any = bpy.data.collections
    found = [c for c in every if c.neural_ik_live.live and (c.library is not None or c.override_library is not None)]
    if not found:
        return ""
    own: Any = found[0]
    library = own.library or own.override_library.reference.library
    ob = settings_of(own).armature
    name = ob.name if ob is not None else own.name
    file = library.filepath if library is not None else "another file"
    return f"{name} is linked from {file}, where it is live: open that file to Apply or Cancel"


def local(datablocks: Any, name: str) -> Any:
    """The data-block of this file, not of a linked one, with that name; None if there is none."""
    return datablocks.get((name, None))


def is_in(ob: Any, objects: Any) -> bool:
    """Whether an object itself, not a linked one with its name, is among a scene's or view layer's objects."""
    found = objects.get(ob.name)
    return found == ob or (found is not None and any(other == ob for other in objects))


def collection_of(ob: bpy.types.Object) -> bpy.types.Collection | None:
    """The collection with the targets of ``ob``; None if it is not live."""
    return next((c for c in collections() if settings_of(c).armature == ob), None)


def active_collection(context: bpy.types.Context) -> bpy.types.Collection | None:
    """The collection of the active target or character, or the only one; None if there is none or it is ambiguous."""
    found = collections()
    active = context.active_object
    for collection in found:
        if active is not None and (active == settings_of(collection).armature or active.name in collection.objects):
            return collection
    return found[0] if len(found) == 1 else None


def settings_of(collection: Any) -> Any:
    """The Live IK settings of the character that these targets belong to."""
    return collection.neural_ik_live


def target_objects(collection: bpy.types.Collection) -> dict[tuple[str, str], bpy.types.Object]:
    """The targets in a collection: (kind, role) -> object."""
    found: dict[tuple[str, str], bpy.types.Object] = {}
    for ob in collection.objects:
        own: Any = ob
        settings = own.neural_ik_target
        if settings.kind != "NONE":
            found.setdefault((settings.kind, settings.bone), ob)
    return found


def mark_changed(owner: bpy.types.ID) -> None:
    """Solve at Blender's next update, because a setting of a target or a collection changed."""
    for live in characters.values():
        collection = bpy.data.collections.get(live.collection)
        if collection is None or not (owner == collection or owner.name in collection.objects):
            continue
        live.dirty = True
        ob = settings_of(collection).armature
        if ob is not None:
            ob.update_tag(refresh={"OBJECT"})


def store_channels(collection: Any, key: str, channels: dict[str, np.ndarray]) -> None:
    """Store channels in the file."""
    collection[key] = np.concatenate([channels[name] for name in CHANNELS]).astype(np.float64).tolist()


def stored_channels(collection: Any, key: str) -> dict[str, np.ndarray]:
    """The channels stored in the file, for the bones that there were then."""
    flat = np.array(collection[key], np.float32)
    count = len(flat) // sum(CHANNELS.values())
    out, at = {}, 0
    for name, size in CHANNELS.items():
        out[name] = flat[at : at + count * size].copy()
        at += count * size
    return out


def stored_channels_for(rig: Rig, collection: Any, key: str) -> dict[str, np.ndarray]:
    """The channels stored in the file. Raises ValueError if ``rig`` has a different number of bones now."""
    channels = stored_channels(collection, key)
    if len(channels["scale"]) != 3 * len(rig.bones):
        raise ValueError("bones were added or deleted since Live IK was started: Cancel, then start it again")
    return channels


# ---- computed


def build(
    name: str,
    ob: bpy.types.Object,
    rig: Rig,
    net: Network,
    base: dict[str, np.ndarray],
    before: dict[str, np.ndarray],
    own_limits: bool = False,
    natural: bool = False,
) -> LiveCharacter:
    """Compute what solving needs.

    Args:
        name: of the collection; empty for a character without targets in the scene.
        ob: the armature object.
        rig: its rig, in the network's order of bones.
        net: the weights.
        base: channels of the pose to start from.
        before: channels of the pose to restore on Cancel.
        own_limits: use the rig's own IK limits instead of those of the weights.
        natural: change the pose as people do, where that is known for the rig, instead of asking the network.
    """
    rig = rig_checks.with_limits(ob, rig, net, own_limits)
    solver = Solver(net, rig.skeleton)
    session: Session | DragSession = solver.session()
    if natural and drag_session.knows(rig.skeleton, rig.roles):
        session = DragSession(rig.skeleton, other_bones.of_character(rig.skeleton, net.density, rig.roles))
    live = LiveCharacter(name, rig, rig, solver, session, base, before)
    use(live, rig)
    skeleton = rig.skeleton
    bones = [*skeleton.effectors, 0]
    live.rest = rotations.quaternion_from_matrix(skeleton.rest_arm[bones, :3, :3])
    live.rest_rotations = [Quaternion(q) for q in live.rest.tolist()]
    live.relative_to_rest = np.stack([quick.right_product(q) for q in rotations.quaternion_conjugate(live.rest[:-1])])
    anchor(live, ob)
    return live


def use(live: LiveCharacter, rig: Rig) -> None:
    """Solve with the offsets that ``rig`` has."""
    if rig.skeleton is not live.rig.skeleton:
        live.solver = Solver(live.solver.net, rig.skeleton)
        drags = live.session if isinstance(live.session, DragSession) else None
        live.session = live.solver.session() if drags is None else drags.on(rig.skeleton)
    live.rig = rig
    live.direct = (
        not isinstance(rig, ControlRig) and rig.simple and all(rig.modes[b] == "QUATERNION" for b in rig.index.tolist())
    )


def anchor(live: LiveCharacter, ob: bpy.types.Object) -> None:
    """Anchor the solver to the base pose: with unmoved targets it returns exactly that pose."""
    watched = proportions.watched(live.at_rest, live.base)
    if live.uneven or not np.array_equal(watched, live.watched):
        use(live, proportions.fitted(ob, live.at_rest, live.base))
        live.watched, live.uneven = watched, proportions.uneven(live.at_rest, live.base)
    anchor_to(live, ob, *rig_checks.pose_of(ob, live.rig, live.base))


def start_over(live: LiveCharacter, collection: Any) -> None:
    """Forget the answer before, because it is the base pose now."""
    if isinstance(live.session, DragSession):
        live.session.start_over()
    if ANSWER in collection:
        del collection[ANSWER]


def anchor_to(live: LiveCharacter, ob: bpy.types.Object, rot: np.ndarray, root: np.ndarray) -> None:
    """Anchor the solver to a pose: rot_local (J, 3) [rad], the root's head (3) [m, rig space]."""
    live.base_rot, live.base_root = rot, root
    bones = [*live.rig.skeleton.effectors, 0]
    posed = fk.armature_matrices(live.rig.skeleton, rot, root)[bones]
    live.base_transforms = np.concatenate([posed[:, :3, 3], rotations.quaternion_from_matrix(posed[:, :3, :3])], axis=1)
    live.motion = motion(ob)
    anchor_session(live, live.base_transforms)


def anchor_session(live: LiveCharacter, transforms: np.ndarray) -> None:
    """Anchor the session to the base pose, in which the effectors and the root are at ``transforms`` (E + 1, 7)."""
    phase, task = live.motion
    effectors = transforms[:-1]
    turns = effector_rotations(live, effectors[:, 3:])
    goals = Goals(effectors[:, :3], live.base_root, live.base_rot[0], turns, phase=phase, task=task)
    live.session.anchor(goals, live.base_rot)


class Fit:
    """The search of an update for offsets that depend on the pose they give."""

    def __init__(self) -> None:
        """Nothing was tried yet."""
        self._before: tuple[np.ndarray, np.ndarray] | None = None
        self._left = FITS

    def again(self, live: LiveCharacter, posed: np.ndarray | None) -> bool:
        """Take the offsets of a solved pose (J, 4, 4) [object space]; False if they are those it was solved with, or after FITS."""
        self._left -= 1
        if not live.uneven or posed is None or self._left <= 0:
            return False
        now, found = proportions.own_offsets(live.rig), proportions.offsets_in(live.rig, posed)
        if np.abs(now - found).max() <= FITTED * live.rig.skeleton.leg_length:
            return False
        rig = proportions.with_offsets(live.rig, proportions.next_offsets(now, found, self._before))
        self._before = now, found
        use(live, rig)
        bones = [*rig.skeleton.effectors, 0]
        moved = fk.armature_matrices(rig.skeleton, live.base_rot, live.base_root)[bones]
        anchor_session(live, np.concatenate([moved[:, :3, 3], live.base_transforms[:, 3:]], axis=1))
        return True


def motion(ob: bpy.types.Object) -> tuple[float, float]:
    """Phase and task value from the timeline and the action; without an action phase 0 of locomotion."""
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


def effector_rotations(live: LiveCharacter, quaternions: np.ndarray) -> np.ndarray:
    """Rotations log(R R_rest^T) (E, 3) [rad] from the effectors' orientations R as quaternions (E, 4)."""
    relative = np.matmul(quaternions[:, None, :], live.relative_to_rest)[:, 0]
    return np.array([quick.axis_angle_of_one(*q) for q in relative.tolist()])


def effector_roles(live: LiveCharacter) -> list[str]:
    """The roles of the effectors, in the solver's order; bones without a role go by their name."""
    known = live.rig.roles
    return [known[e] if e < len(known) else live.rig.skeleton.names[e] for e in live.rig.skeleton.effectors]


def verdict(live: LiveCharacter) -> str:
    """What looks broken in the pose that is shown, in a sentence; empty where nothing does. Judged at most once per solve."""
    if live.shown is None or len(live.shown) != len(live.base_rot):
        return ""
    if live.verdict is None or live.verdict[0] is not live.shown:
        if live.judge is None or live.judge.skeleton is not live.rig.skeleton:
            live.judge = PoseJudge(live.rig.skeleton, live.rig.roles)
        found = live.judge.judge(rotations.axis_angle_from_quaternion(live.shown), live.base_rot)
        names = [live.rig.bones[bone] for bone in live.rig.index.tolist()]
        live.verdict = live.shown, found.sentence(names)
    return live.verdict[1]


def explain(live: LiveCharacter) -> Explanation | None:
    """The nearest learned frame and how unusual the pose is; computed at most once per solve. None before the first solve."""
    if live.goals is None:
        return None
    if live.explained is not live.goals:
        live.explanation = live.solver.explain(live.goals)
        live.explained = live.goals
    return live.explanation
