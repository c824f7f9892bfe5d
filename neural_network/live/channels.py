# SPDX-License-Identifier: GPL-3.0-or-later
"""Channels: the named numbers of a rig's frame, and their way into and out of the trainee.

On the wire a frame is a row of numbers in the rig's own world, units and quaternion order. Here it becomes a row of
features in the space of one bone, the *reference* (the pelvis): so that where the rig stands changes nothing.
A channel with space ``world`` is expressed in the reference's frame; one with space ``parent`` is relative to its
parent bone already and stays as it is. The reference's own tilt against the vertical stays visible (three numbers).

Two kinds of structure are used where they are declared, because they need not be learned:

- a *limb* (hip, knee, ankle): from the ankle's place the knee lies on a circle; only the angle on it is learned, so
  that bone lengths are exact. Where the ankle's rotation is known too, that angle is told by the hinge as the foot sees
  it, which hardly changes however the leg stands: what was learned from a walk holds in a jump;
- the *legs* layout (63 -> 24): the previous pose is first put on the new targets, knees bent about their own hinges
  (``_reached``); what is learned is the small rotation of each bone from there, and how the sole lies in the foot.

All functions take free leading axes: one frame (n) or many (F, n).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ..core.rotations import (
    axis_angle_from_quaternion,
    quaternion_from_axis_angle,
    quaternion_from_matrix,
    quaternion_multiply,
    rotation_between,
)

SIZES = {"position": 3, "rotation": 4, "direction": 3, "number": 1}
"""Numbers a channel of each kind takes on the wire."""
FAR = 1e7
"""[m] world positions beyond this are refused; double precision still resolves a micrometre there."""
REACH = 100.0
"""[m] positions beyond this from the reference, or from their parent, are refused."""
ASIDE = 0.1
"""Weight of the legs' inputs that say where they are in the pelvis' space: a hint, of which less is made than of how each
leg is bent, because takes never seen go to other places with the same legs."""

LEGS_DECAY = 0.5
"""Weight decay of what learns legs, at least: from the reached pose little is left to learn, and making too much of it is
worse on takes never seen than making too little."""


@dataclass(frozen=True)
class Channel:
    """One named value of a frame."""

    name: str
    """As the client calls it, for example ``LeftFoot.position``."""
    kind: str
    """``position`` [rig units], ``rotation`` (quaternion), ``direction`` or ``number``."""
    space: str = "world"
    """``world`` or ``parent``."""


@dataclass(frozen=True)
class Limb:
    """Two bones of known length whose first joint sits still in the reference (a thigh and a calf on the pelvis)."""

    end: str
    """Input position channel of the end (the ankle)."""
    joint: str
    """Output position channel, in world space, of the joint between (the knee)."""
    root: tuple[float, float, float]
    """Place of the first joint (the hip) in the reference bone's axes [m]."""
    upper: float
    """Length of the first bone [m]."""
    lower: float
    """Length of the second bone [m]."""
    rest: tuple[float, float, float]
    """Direction from the first joint to the end at rest, in the reference bone's axes."""


@dataclass(frozen=True)
class Plan:
    """Where the numbers of each kind stand in a wire row: the channels of one kind are read and turned together."""

    size: int
    positions: np.ndarray
    """(n, 3) indices."""
    rotations: np.ndarray
    """(n, 4) indices, in the order (w, x, y, z)."""
    directions: np.ndarray
    """(n, 3) indices."""
    numbers: np.ndarray
    """(n) indices."""
    here: tuple[np.ndarray, np.ndarray, np.ndarray]
    """For positions, rotations, directions: (n) True where the channel is in world space."""
    names: tuple[tuple[str, ...], ...]
    """Names of the positions, rotations, directions and numbers."""


@dataclass(frozen=True)
class Layout:
    """Which channels go in and come out; made and checked by ``layout``, ``legs_layout`` and ``positions_layout``."""

    name: str
    """``legs`` or ``free``."""
    inputs: tuple[Channel, ...]
    """The reference's position and rotation come first."""
    outputs: tuple[Channel, ...]
    limbs: tuple[Limb, ...] = ()
    unit: float = 1.0
    """Metres in one rig unit."""
    xyzw: bool = False
    """True where the wire holds quaternions as (x, y, z, w)."""
    up: tuple[float, float, float] = (0.0, 0.0, 1.0)
    """The vertical in the rig's world."""

    @cached_property
    def input_plan(self) -> Plan:
        """Where the inputs stand in a wire row."""
        return _plan(self.inputs, self.xyzw)

    @cached_property
    def output_plan(self) -> Plan:
        """Where the outputs stand in a wire row."""
        return _plan(self.outputs, self.xyzw)

    @property
    def input_size(self) -> int:
        """Numbers of a frame's inputs on the wire."""
        return self.input_plan.size

    @property
    def output_size(self) -> int:
        """Numbers of a frame's outputs on the wire."""
        return self.output_plan.size


LEG_BONES = ("Thigh", "Calf", "Foot")
SIDES = ("Left", "Right")


def layout(
    inputs: Sequence[Channel],
    outputs: Sequence[Channel],
    limbs: Sequence[Limb] = (),
    *,
    name: str = "free",
    unit: float = 1.0,
    xyzw: bool = False,
    up: Sequence[float] = (0.0, 0.0, 1.0),
) -> Layout:
    """Check channels and limbs and make a Layout of them.

    Raises ValueError with what was expected: the first two inputs must be the reference's position and rotation in
    world space, names unique, kinds and spaces known, limbs made of a world position in and a world position out.
    """
    inputs, outputs, limbs = tuple(inputs), tuple(outputs), tuple(limbs)
    names = [c.name for c in inputs] + [c.name for c in outputs]
    if len(set(names)) != len(names):
        raise ValueError("channels: expected every name once, got one twice; give outputs a name of their own")
    for c in inputs + outputs:
        if c.kind not in SIZES or c.space not in ("world", "parent"):
            raise ValueError(
                f"channel {c.name!r}: expected a kind of {sorted(SIZES)} and space world or parent, got {c}"
            )
    if [(c.kind, c.space) for c in inputs[:2]] != [("position", "world"), ("rotation", "world")]:
        raise ValueError("channels: expected the reference's world position and world rotation as the first two inputs")
    if not outputs:
        raise ValueError("channels: expected at least one output, got none")
    world_in = {c.name for c in inputs[2:] if c.kind == "position" and c.space == "world"}
    world_out = {c.name for c in outputs if c.kind == "position" and c.space == "world"}
    if len({limb.joint for limb in limbs}) != len(limbs):
        raise ValueError("limbs: expected every joint in one limb only")
    for limb in limbs:
        if limb.end not in world_in or limb.joint not in world_out:
            raise ValueError(
                f"limb: expected end among {sorted(world_in)} and joint among {sorted(world_out)}, got {limb}"
            )
        numbers = np.array([*limb.root, limb.upper, limb.lower, *limb.rest])
        if (
            not np.any(limb.rest)
            or not np.all(np.isfinite(numbers))
            or np.abs(numbers).max() > REACH
            or min(limb.upper, limb.lower) <= 1e-4
        ):
            raise ValueError(f"limb to {limb.end!r}: expected lengths between 0.1 mm and {REACH:g} m, got {limb}")
    if not np.isfinite(unit) or not 1e-6 <= unit <= 1e6:
        raise ValueError(f"unit: expected metres in a rig unit between 1e-6 and 1e6, got {unit}")
    vertical = np.asarray(up, np.float64)
    if vertical.shape != (3,) or not np.isclose(np.linalg.norm(vertical), 1):
        raise ValueError(f"up: expected a unit vector, got {up}")
    x, y, z = (float(v) for v in vertical)
    return Layout(name, inputs, outputs, limbs, float(unit), bool(xyzw), (x, y, z))


def legs_layout(*, unit: float = 1.0, xyzw: bool = False, up: Sequence[float] = (0.0, 0.0, 1.0)) -> Layout:
    """The built-in layout of 63 inputs and 24 outputs.

    In: the pelvis in the world; thigh, calf and foot of each leg relative to their parents, as they were one frame ago;
    per foot the target of its head, the normal under its sole, and whether there is ground (0 or 1).
    Out: the new rotations of the six bones, relative to their parents.
    """
    inputs = [Channel("Pelvis.position", "position"), Channel("Pelvis.rotation", "rotation")]
    bones = [side + bone for side in SIDES for bone in LEG_BONES]
    for bone in bones:
        inputs += [Channel(f"{bone}.position", "position", "parent"), Channel(f"{bone}.rotation", "rotation", "parent")]
    for side in SIDES:
        inputs += [Channel(f"{side}Foot.target", "position"), Channel(f"{side}Foot.normal", "direction")]
        inputs += [Channel(f"{side}Foot.hit", "number")]
    outputs = [Channel(f"{bone}.rotation.new", "rotation", "parent") for bone in bones]
    return layout(inputs, outputs, name="legs", unit=unit, xyzw=xyzw, up=up)


def positions_layout(
    reference: str,
    known: Sequence[str],
    wanted: Sequence[str],
    limbs: Sequence[Limb] = (),
    *,
    rotations: bool = True,
    parent_space: bool = False,
    unit: float = 1.0,
    xyzw: bool = False,
    up: Sequence[float] = (0.0, 0.0, 1.0),
) -> Layout:
    """The built-in layout "reference bones -> positions": from where ``known`` bones are to where ``wanted`` ones are.

    With ``rotations`` the known bones' world rotations go in too. ``parent_space``: wanted positions are given relative
    to their parent bones instead of in the world.
    """
    inputs = [Channel(f"{reference}.position", "position"), Channel(f"{reference}.rotation", "rotation")]
    for bone in known:
        inputs.append(Channel(f"{bone}.position", "position"))
        if rotations:
            inputs.append(Channel(f"{bone}.rotation", "rotation"))
    outputs = [Channel(f"{bone}.position", "position", "parent" if parent_space else "world") for bone in wanted]
    return layout(inputs, outputs, limbs, unit=unit, xyzw=xyzw, up=up)


def groups(shape: Layout) -> tuple[int, ...]:
    """Sizes of what the trainee learns for each output channel, in order."""
    if shape.name == "legs":
        return (3,) * 8  # six rotations, two soles
    joints = {limb.joint: 3 if turned else 2 for limb, turned in zip(shape.limbs, _turned_ends(shape), strict=True)}
    return tuple(joints.get(c.name, 6 if c.kind == "rotation" else SIZES[c.kind]) for c in shape.outputs)


def feature_count(shape: Layout) -> int:
    """How many features a layout's inputs become: those of some rig at rest."""
    rest = {"rotation": np.eye(4)[3 if shape.xyzw else 0], "direction": np.eye(3)[0]}
    row = np.concatenate([rest.get(c.kind, np.zeros(SIZES[c.kind])) for c in shape.inputs])
    return int(encode_inputs(shape, row)[0].shape[-1])


def _turned_ends(shape: Layout) -> list[bool]:
    """For each limb whether the rotation of its end is an input too."""
    names = {c.name for c in shape.inputs if c.kind == "rotation"}
    return [_rotation_of(limb) in names for limb in shape.limbs]


def _rotation_of(limb: Limb) -> str:
    return limb.end.removesuffix(".position") + ".rotation"


def _plan(channels: tuple[Channel, ...], xyzw: bool) -> Plan:
    found: dict[str, list[tuple[Channel, list[int]]]] = {kind: [] for kind in SIZES}
    at = 0
    for c in channels:
        places = list(range(at, at + SIZES[c.kind]))
        if c.kind == "rotation" and xyzw:
            places = [places[3], *places[:3]]
        found[c.kind].append((c, places))
        at += SIZES[c.kind]
    index = {kind: np.array([i for _, i in have], int).reshape(-1, SIZES[kind]) for kind, have in found.items()}
    here = {kind: np.array([c.space == "world" for c, _ in have], bool) for kind, have in found.items()}
    names = tuple(tuple(c.name for c, _ in found[kind]) for kind in SIZES)
    return Plan(
        at,
        index["position"],
        index["rotation"],
        index["direction"],
        index["number"][:, 0],
        (here["position"], here["rotation"], here["direction"]),
        names,
    )


def read_values(plan: Plan, row: np.ndarray, shape: Layout) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Wire rows (..., n) as positions (..., p, 3) [m], unit quaternions (..., q, 4), directions (..., d, 3), numbers (..., k).

    Raises ValueError for a wrong length, NaN, infinity, positions beyond ``FAR`` or, in parent space, ``REACH``, numbers
    beyond 10,000, and quaternions or directions that are far from unit length.
    """
    row = np.asarray(row, np.float64)
    if row.shape[-1:] != (plan.size,):
        raise ValueError(f"frame: expected {plan.size} numbers, got {row.shape[-1] if row.ndim else 0}")
    # one comparison finds NaN, infinity and the absurd: NaN fails it too
    if not bool((np.abs(row) <= FAR / min(shape.unit, 1.0)).all()):
        raise ValueError(f"frame: expected finite numbers within {FAR:g} m, got NaN, infinity or more; check the units")
    positions = row[..., plan.positions] * shape.unit
    far = np.abs(positions).max(initial=0, axis=-1)
    if bool((far > np.where(plan.here[0], FAR, REACH)).any()):
        raise ValueError(f"frame: expected positions within {REACH:g} m of their parent, got more; check the units")
    numbers = row[..., plan.numbers]
    if numbers.size and np.abs(numbers).max() > 1e4:
        raise ValueError("frame: expected numbers within 10,000, got more")
    rotations = _unit(row[..., plan.rotations])
    directions = _unit(row[..., plan.directions]) if len(plan.directions) else row[..., plan.directions]
    return positions, rotations, directions, numbers


def write_values(
    plan: Plan,
    values: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    shape: Layout,
) -> np.ndarray:
    """The way back of ``read_values``: wire rows (..., n) in rig units and the rig's quaternion order."""
    positions, rotations, directions, numbers = values
    out = np.empty((*positions.shape[:-2], plan.size))
    out[..., plan.positions] = positions / shape.unit
    out[..., plan.rotations] = rotations
    out[..., plan.directions] = directions
    out[..., plan.numbers] = numbers
    return out


def encode_inputs(shape: Layout, row: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Wire inputs (..., n) to the trainee's inputs (..., m), and the scene that ``encode_outputs`` and ``decode`` need.

    Raises ValueError as ``read_values`` does, and where a world position is over ``REACH`` from the reference.
    """
    positions, rotations, directions, numbers = read_values(shape.input_plan, row, shape)
    turn = rotations[..., 0, :]
    scene = {"origin": positions[..., 0, :], "turn": turn, "frame": _matrices(turn)}
    positions, rotations, directions = _inward(shape.input_plan, (positions, rotations, directions), scene, shape)
    positions, rotations = positions[..., 1:, :], rotations[..., 1:, :]
    up = np.array(shape.up) @ scene["frame"]  # in the reference's axes
    if shape.name == "legs":
        return _legs_features(scene, up, positions, rotations, directions, numbers), scene
    lead = up.shape[:-1]
    matrices = _matrices(rotations)
    features = [up, positions.reshape(*lead, -1)]
    if shape.limbs:
        ends, feet, limbs = _limb_plan(shape)
        _circles(shape, scene, positions[..., ends, :])
        features.append(scene["limb.radius"])
        if len(feet):  # which way the foot looks from its limb, and where the limb runs as the foot sees it
            scene["limb.end"] = np.zeros((*lead, len(shape.limbs), 3, 3))
            scene["limb.end"][..., limbs, :, :] = matrices[..., feet, :, :]
            seen = np.swapaxes(scene["limb.frame"][..., limbs, :, :], -1, -2) @ matrices[..., feet, :, :]
            matrices = matrices.copy()
            matrices[..., feet, :, :] = seen
            features.append(seen[..., 1, :].reshape(*lead, -1))
    features += [matrices[..., :2].reshape(*lead, -1), directions.reshape(*lead, -1), numbers]
    return np.concatenate(features, axis=-1), scene


def encode_outputs(shape: Layout, row: np.ndarray, scene: dict[str, np.ndarray]) -> np.ndarray:
    """Wire outputs (..., n) to what the trainee learns (..., sum of ``groups``).

    Raises ValueError as ``encode_inputs`` does.
    """
    positions, rotations, directions, numbers = read_values(shape.output_plan, row, shape)
    if shape.name == "legs":
        step = axis_angle_from_quaternion(_multiply(scene["legs.base"] * _CONJUGATE, rotations))
        _, _, turned = _leg_chain(scene, _matrices(rotations))
        soles = _into(turned, scene["legs.normal"])
        return np.concatenate([step, soles], axis=-2).reshape(*step.shape[:-2], 24)
    positions, rotations, directions = _inward(shape.output_plan, (positions, rotations, directions), scene, shape)
    joints = {limb.joint: i for i, limb in enumerate(shape.limbs)}
    turned_ends = _turned_ends(shape)
    sixd = np.swapaxes(_matrices(rotations)[..., :2], -1, -2).reshape(*rotations.shape[:-1], 6)
    at = dict.fromkeys(SIZES, 0)
    parts = []
    for c in shape.outputs:
        i = at[c.kind]
        at[c.kind] += 1
        if c.name in joints:
            j = joints[c.name]
            off = positions[..., i, :] - scene["limb.middle"][..., j, :]
            if turned_ends[j]:
                hinge = _cross(scene["limb.frame"][..., j, :, 1], off)
                parts.append(_into(scene["limb.end"][..., j, :, :], hinge))
            else:
                parts.append(_into(scene["limb.frame"][..., j, :, :], off)[..., [0, 2]])
        elif c.kind == "position":
            parts.append(positions[..., i, :])
        elif c.kind == "rotation":
            parts.append(sixd[..., i, :])
        elif c.kind == "direction":
            parts.append(directions[..., i, :])
        else:
            parts.append(numbers[..., i : i + 1])
    return np.concatenate(parts, axis=-1)


def decode(shape: Layout, guess: np.ndarray, scene: dict[str, np.ndarray], *, exact: bool = False) -> np.ndarray:
    """What the trainee answers (..., sum of ``groups``) to wire outputs (..., n): unit quaternions, exact lengths.

    ``exact`` (legs only): an exact step after the network. It tilts each foot until its sole lies as the normal says, then
    bends the knee about its hinge and swings the thigh until the foot's head is on its target, as far as the leg reaches.
    What is left to learning is how the knee points and the foot turns about the normal. Raises ValueError where a leg has
    no length.
    """
    guess = np.asarray(guess, np.float64)
    lead = guess.shape[:-1]
    nothing = np.zeros((*lead, 0, 3))
    if shape.name == "legs":
        parts = guess.reshape(*lead, 8, 3)
        new = _unit(_multiply(scene["legs.base"], quaternion_from_axis_angle(parts[..., :6, :])), loose=True)
        if exact:
            new = _unit(_reached(scene, new, parts[..., 6:, :])[0], loose=True)
        return write_values(shape.output_plan, (nothing, new, nothing, nothing[..., 0]), shape)
    joints = {limb.joint: i for i, limb in enumerate(shape.limbs)}
    turned_ends = _turned_ends(shape)
    found: dict[str, list[np.ndarray]] = {kind: [] for kind in SIZES}
    at = 0
    for c, size in zip(shape.outputs, groups(shape), strict=True):
        value = guess[..., at : at + size]
        at += size
        if c.name in joints:
            i = joints[c.name]
            if turned_ends[i]:
                value = _hinged(scene, i, value)
            length = np.linalg.norm(value, axis=-1, keepdims=True)
            value = np.where(length > 1e-9, value / np.maximum(length, 1e-30), np.array([0.0, 1.0]))
            ring = scene["limb.frame"][..., i, :, :][..., [0, 2]]
            value = scene["limb.middle"][..., i, :] + _out_of(ring, value) * scene["limb.radius"][..., i : i + 1]
        elif c.kind == "rotation":
            value = quaternion_from_matrix(_orthonormal(value))
        elif c.kind == "direction":
            value = value / np.maximum(np.linalg.norm(value, axis=-1, keepdims=True), 1e-12)
        elif c.kind == "number":
            value = value[..., 0]
        found[c.kind].append(value)
    numbers = np.stack(found["number"], axis=-1) if found["number"] else nothing[..., 0]
    positions, directions = (np.stack(v, axis=-2) if v else nothing for v in (found["position"], found["direction"]))
    rotations = np.stack(found["rotation"], axis=-2) if found["rotation"] else np.zeros((*lead, 0, 4))
    here = shape.output_plan.here
    frame = scene["frame"][..., None, :, :]
    positions = np.where(here[0][:, None], _out_of(frame, positions) + scene["origin"][..., None, :], positions)
    rotations = np.where(here[1][:, None], _multiply(scene["turn"][..., None, :], rotations), rotations)
    directions = np.where(here[2][:, None], _out_of(frame, directions), directions)
    return write_values(shape.output_plan, (positions, rotations, directions, numbers), shape)


def stray(shape: Layout, row: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
    """The same wire inputs (n) from a previous pose that has strayed, or None where the layout has no previous pose.

    A network that has only seen true previous poses drifts away once its own answers come back as the previous pose.
    From strayed ones it learns the way home (the idea of Laskey et al. 2017, arXiv 1703.09327). The turns are random,
    of a twentieth of a degree to some six degrees: larger ones cost more with true previous poses than they gain.
    """
    if shape.name != "legs":
        return None
    out = np.array(row, np.float64)
    size = np.exp(rng.uniform(np.log(0.001), np.log(0.1)))
    noise = quaternion_from_axis_angle(rng.standard_normal((6, 3)) * size * rng.uniform(size=(6, 1)))
    bones = out[7:49].reshape(6, 7)  # a view
    old = bones[:, [6, 3, 4, 5]] if shape.xyzw else bones[:, 3:]
    new = quaternion_multiply(old, noise)
    bones[:, 3:] = new[:, [1, 2, 3, 0]] if shape.xyzw else new
    return out


def legs_forward(scene: dict[str, np.ndarray], rotations: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Legs in the pelvis' space: knees and feet (..., 2, 3) [m], and rotations of the feet (..., 2, 3, 3).

    ``rotations`` (..., 6, 4): thigh, calf, foot of the left leg, then of the right one, relative to their parents.
    """
    knee, foot, turned = _leg_chain(scene, _matrices(rotations))
    return knee, foot, turned


def _inward(
    plan: Plan,
    values: tuple[np.ndarray, np.ndarray, np.ndarray],
    scene: dict[str, np.ndarray],
    shape: Layout,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, rotations, directions of world space into the reference's frame; the others stay."""
    positions, rotations, directions = values
    here = plan.here
    frame = scene["frame"][..., None, :, :]
    if positions.shape[-2]:
        positions = np.where(here[0][:, None], _into(frame, positions - scene["origin"][..., None, :]), positions)
        if np.abs(positions).max(initial=0) > REACH:
            raise ValueError(f"frame: expected positions within {REACH:g} m of {shape.inputs[0].name}, got more")
    if rotations.shape[-2]:
        back = scene["turn"][..., None, :] * _CONJUGATE
        rotations = np.where(here[1][:, None], _multiply(back, rotations), rotations)
    if directions.shape[-2]:
        directions = np.where(here[2][:, None], _into(frame, directions), directions)
    return positions, rotations, directions


def _legs_features(
    scene: dict[str, np.ndarray],
    up: np.ndarray,
    positions: np.ndarray,
    rotations: np.ndarray,
    normals: np.ndarray,
    hits: np.ndarray,
) -> np.ndarray:
    """How each leg of the reached pose is bent and how far its foot had to come; with less weight, where it all is."""
    scene["legs.offsets"], scene["legs.target"] = positions[..., :6, :], positions[..., 6:, :]
    scene["legs.normal"] = normals
    scene["legs.base"], feet, before, foot = _reached(scene, rotations)
    turns = _matrices(np.concatenate([scene["legs.base"], feet], axis=-2))
    lead = up.shape[:-1]
    here = [turns[..., :6, :, :2], scene["legs.target"] - before, _into(turns[..., 6:, :, :], normals), hits]
    there = [up, turns[..., 6:, :, :2], foot, normals]
    near = [part.reshape(*lead, -1) for part in here]
    return np.concatenate(
        [*near, ASIDE * np.concatenate([part.reshape(*lead, -1) for part in there], axis=-1)], axis=-1
    )


def _leg_chain(scene: dict[str, np.ndarray], local: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Knees, feet (..., 2, 3) and rotations of the feet (..., 2, 3, 3) in the pelvis' space."""
    offsets = scene["legs.offsets"]
    hip, to_knee, to_foot = offsets[..., 0::3, :], offsets[..., 1::3, :], offsets[..., 2::3, :]
    thigh = local[..., 0::3, :, :]
    calf = thigh @ local[..., 1::3, :, :]
    knee = hip + _out_of(thigh, to_knee)
    return knee, knee + _out_of(calf, to_foot), calf @ local[..., 2::3, :, :]


def _reached(
    scene: dict[str, np.ndarray], rotations: np.ndarray, soles: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The pose (..., 6, 4) with the feet on their targets, as far as the legs reach, and their orientation kept.

    The knee bends about its own hinge, the axis across thigh and calf, then the whole leg swings from the hip by the
    smallest turn: no bone twists, and the knee goes on pointing where it pointed. ``soles`` (..., 2, 3), the normals as the
    feet see them: the feet are tilted first so that these look along the targets' normals. A straight leg bends about its
    thigh's X axis, having no hinge to see. Beside the pose the feet's orientations (..., 2, 4), and where they were and
    are (..., 2, 3), in the pelvis' space. Raises ValueError with ``soles`` where a leg has no length.
    """
    offsets = scene["legs.offsets"]
    hip = offsets[..., 0::3, :]
    thigh = rotations[..., 0::3, :]
    calf = _multiply(thigh, rotations[..., 1::3, :])
    foot = _multiply(calf, rotations[..., 2::3, :])
    turned = _matrices(np.concatenate([thigh, calf], axis=-2))
    bones = _out_of(turned, np.concatenate([offsets[..., 1::3, :], offsets[..., 2::3, :]], axis=-2))
    a, b = bones[..., :2, :], bones[..., 2:, :]
    to = scene["legs.target"] - hip
    lengths = _length(np.concatenate([bones, to], axis=-2))
    upper, lower, far = lengths[..., :2, :], lengths[..., 2:4, :], lengths[..., 4:, :]
    if soles is not None:
        if not bool((lengths[..., :4, :] > 1e-4).all()):
            raise ValueError(
                "legs: expected thighs and calves longer than 0.1 mm to put feet on their targets, got shorter"
            )
        foot = _tilted(foot, soles, scene["legs.normal"])
    ahead = to / np.maximum(far, 1e-12)
    far = np.minimum(np.maximum(far, np.abs(upper - lower) + 1e-6), upper + lower - 1e-6)
    product = np.maximum(upper * lower, 1e-12)
    hinge = _cross(a, b) / product
    sine = _length(hinge)
    hinge = np.where(sine > 1e-6, hinge / np.maximum(sine, 1e-12), turned[..., :2, :, 0])
    bend = (far * far - upper * upper - lower * lower) / (2 * product)
    angle = np.arccos(np.minimum(np.maximum(bend, -1), 1)) - np.arctan2(sine, _dot(a, b) / product)
    flex = np.concatenate([np.cos(0.5 * angle), np.sin(0.5 * angle) * hinge], axis=-1)
    reach = a + np.cos(angle) * b + np.sin(angle) * _cross(hinge, b)  # the hinge is across the calf
    swing = _arc(reach / np.maximum(_length(reach), 1e-12), ahead)
    out = np.empty_like(rotations)
    out[..., 0::3, :] = thigh = _multiply(swing, thigh)
    calf = _multiply(swing, _multiply(flex, calf))
    out[..., 1::3, :] = _multiply(thigh * _CONJUGATE, calf)
    out[..., 2::3, :] = _multiply(calf * _CONJUGATE, foot)
    return out, foot, hip + a + b, hip + ahead * far


def _tilted(feet: np.ndarray, soles: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Feet (..., 2, 4) turned by the smallest turn that brings each sole's normal onto the target's; unlearned soles not."""
    length = _length(soles)
    turn = _arc(_out_of(_matrices(feet), soles / np.maximum(length, 1e-12)), normals)
    out: np.ndarray = np.where(length > 0.5, _multiply(turn, feet), feet)
    return out


def _hinged(scene: dict[str, np.ndarray], limb: int, hinge: np.ndarray) -> np.ndarray:
    """Where on its circle (..., 2) a limb's joint lies whose hinge is ``hinge`` (..., 3) as the end sees it."""
    frame = scene["limb.frame"][..., limb, :, :]
    off = _cross(_out_of(scene["limb.end"][..., limb, :, :], hinge), frame[..., :, 1])
    out: np.ndarray = _into(frame, off)[..., [0, 2]]
    return out


@lru_cache(maxsize=64)
def _limb_plan(shape: Layout) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which positions are the limbs' ends; which rotations belong to ends, and to which limbs; the reference left out."""
    plan = shape.input_plan
    positions, rotations = plan.names[0][1:], plan.names[1][1:]
    ends = np.array([positions.index(limb.end) for limb in shape.limbs], int)
    turns = [_rotation_of(limb) for limb in shape.limbs]
    pairs = [(rotations.index(name), i) for i, name in enumerate(turns) if name in rotations]
    return ends, np.array([a for a, _ in pairs], int), np.array([b for _, b in pairs], int)


@lru_cache(maxsize=64)
def _limb_numbers(limbs: tuple[Limb, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rest = np.array([limb.rest for limb in limbs])
    rest = rest / np.linalg.norm(rest, axis=-1, keepdims=True)
    base = rotation_between(np.array([0.0, 1.0, 0.0]), rest)
    upper, lower = (np.array([getattr(limb, k) for limb in limbs])[:, None] for k in ("upper", "lower"))
    return np.array([limb.root for limb in limbs]), upper, lower, rest, base


def _circles(shape: Layout, scene: dict[str, np.ndarray], ends: np.ndarray) -> None:
    """Where each limb's joint can be: middle, radius [m] and a frame whose Y points from the root to the end.

    The frame is the smallest turn from the rest direction: its one singular place is a limb opposite to its rest.
    """
    root, upper, lower, rest, base = _limb_numbers(shape.limbs)
    to = ends - root
    far = _length(to)
    axis = to / np.maximum(far, 1e-12)
    # beyond its reach the limb is straight, too near it is folded
    far = np.clip(far, np.abs(upper - lower) + 1e-6, upper + lower)
    along = (upper**2 - lower**2 + far**2) / (2 * far)
    scene["limb.frame"] = _matrices(_arc(rest, axis)) @ base
    scene["limb.middle"] = root + axis * along
    scene["limb.radius"] = np.sqrt(np.maximum(upper**2 - along**2, 0))[..., 0]


# -- small kernels: frames come one at a time, and one product with a constant is faster than many slices ----------------


def _constants() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Constants (16, 9), (16, 4), (9, 3): rotation matrix, Hamilton product and cross product as sums of products."""
    product = np.zeros((4, 4, 4))
    units = np.eye(4)
    for i in range(4):
        for j in range(4):
            product[i, j] = quaternion_multiply(units[i], units[j])
    cross = np.array([[np.cross(a, b) for b in np.eye(3)] for a in np.eye(3)])
    # R v = q v q*: column k is q e_k q*
    matrix = np.zeros((4, 4, 3, 3))
    for i in range(4):
        for j in range(4):
            for k in range(3):
                back = units[j] * _CONJUGATE
                turned = quaternion_multiply(quaternion_multiply(units[i], units[k + 1]), back)
                matrix[i, j, :, k] = turned[1:]
    return matrix.reshape(16, 9), product.reshape(16, 4), cross.reshape(9, 3)


_CONJUGATE = np.array([1.0, -1.0, -1.0, -1.0])
_MATRIX, _PRODUCT, _CROSS = _constants()


def _matrices(quaternions: np.ndarray) -> np.ndarray:
    """Unit quaternions (..., 4) to matrices (..., 3, 3)."""
    lead = quaternions.shape[:-1]
    pairs = (quaternions[..., :, None] * quaternions[..., None, :]).reshape(*lead, 16)
    return (pairs @ _MATRIX).reshape(*lead, 3, 3)


def _multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Hamilton product (..., 4): ``b`` first, then ``a``."""
    pairs = a[..., :, None] * b[..., None, :]
    out: np.ndarray = pairs.reshape(*pairs.shape[:-2], 16) @ _PRODUCT
    return out


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cross product (..., 3)."""
    pairs = a[..., :, None] * b[..., None, :]
    out: np.ndarray = pairs.reshape(*pairs.shape[:-2], 9) @ _CROSS
    return out


def _arc(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The smallest turn (..., 4) of unit vectors ``a`` to ``b``; exactly opposite ones, which have no smallest turn, stay."""
    vector = _cross(a, b)
    cosine = _dot(a, b)
    return _unit(np.concatenate([1 + np.maximum(cosine, 1e-9 - 1), vector], axis=-1), loose=True)


def _unit(vectors: np.ndarray, *, loose: bool = False) -> np.ndarray:
    """Unit vectors (..., n); ValueError where a length is under a half or over 2, unless ``loose``."""
    length = _length(vectors)
    if not loose and not bool(((length > 0.5) & (length < 2.0)).all()):
        raise ValueError(
            "frame: expected quaternions and directions of unit length, got some beyond half or double of it"
        )
    out: np.ndarray = vectors / length
    return out


def _length(vectors: np.ndarray) -> np.ndarray:
    out: np.ndarray = np.sqrt(_dot(vectors, vectors))
    return out


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Scalar products (..., 1): as a matrix product, which starts sooner than a sum."""
    out: np.ndarray = (a[..., None, :] @ b[..., None])[..., 0]
    return out


def _into(frame: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    out: np.ndarray = (vectors[..., None, :] @ frame)[..., 0, :]
    return out


def _out_of(frame: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    out: np.ndarray = (frame @ vectors[..., None])[..., 0]
    return out


def _orthonormal(sixd: np.ndarray) -> np.ndarray:
    """Gram-Schmidt as in ``matrix_from_sixd``, but a degenerate guess gives some rotation instead of an error."""
    first = sixd[..., :3] + 1e-9 * np.array([1.0, 0, 0])
    first = first / np.linalg.norm(first, axis=-1, keepdims=True)
    third = np.cross(first, sixd[..., 3:]) + 1e-9 * np.cross(first, np.roll(first, 1, axis=-1))
    third = third / np.maximum(np.linalg.norm(third, axis=-1, keepdims=True), 1e-30)
    return np.stack([first, np.cross(third, first), third], axis=-1)
