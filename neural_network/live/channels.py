# SPDX-License-Identifier: GPL-3.0-or-later
"""Channels: the named numbers of a rig's frame, and their way into and out of the trainee.

On the wire a frame is a row of numbers in the rig's own world, units and quaternion order. Here it becomes a row of
features in the space of one bone, the *reference* (the pelvis): so that where the rig stands changes nothing.
A channel with space ``world`` is expressed in the reference's frame; one with space ``parent`` is relative to its
parent bone already and stays as it is. The reference's own tilt against the vertical stays visible (three numbers).

Two kinds of structure are used where they are declared, because they need not be learned:

- a *limb* (hip, knee, ankle): from the ankle's place the knee lies on a circle; only the angle on it is learned, so
  that bone lengths are exact;
- the *legs* layout (63 -> 24): what is learned is the small rotation of each bone from the previous pose.

All functions take free leading axes: one frame (n) or many (F, n).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..rotations import (
    axis_angle_from_quaternion,
    matrix_from_quaternion,
    quaternion_conjugate,
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

    @property
    def input_size(self) -> int:
        """Numbers of a frame's inputs on the wire."""
        return sum(SIZES[c.kind] for c in self.inputs)

    @property
    def output_size(self) -> int:
        """Numbers of a frame's outputs on the wire."""
        return sum(SIZES[c.kind] for c in self.outputs)


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
        return (3,) * 6
    joints = {limb.joint for limb in shape.limbs}
    return tuple(2 if c.name in joints else 6 if c.kind == "rotation" else SIZES[c.kind] for c in shape.outputs)


def read_values(channels: Sequence[Channel], row: np.ndarray, shape: Layout) -> dict[str, np.ndarray]:
    """Split wire rows (..., n) into channels, metres and unit quaternions (w, x, y, z).

    Raises ValueError for a wrong length, NaN, infinity, positions beyond ``FAR`` or ``REACH`` (parent space), and
    quaternions or directions that are far from unit length.
    """
    row = np.asarray(row, np.float64)
    size = sum(SIZES[c.kind] for c in channels)
    if row.shape[-1:] != (size,):
        raise ValueError(f"frame: expected {size} numbers, got {row.shape[-1] if row.ndim else 0}")
    # one comparison finds NaN, infinity and the absurd: NaN fails it too
    if not bool((np.abs(row) <= FAR / min(shape.unit, 1.0)).all()):
        raise ValueError(f"frame: expected finite numbers within {FAR:g} m, got NaN, infinity or more; check the units")
    out: dict[str, np.ndarray] = {}
    at = 0
    lengths = []
    for c in channels:
        value = row[..., at : at + SIZES[c.kind]]
        at += SIZES[c.kind]
        if c.kind == "rotation":
            if shape.xyzw:
                value = value[..., [3, 0, 1, 2]]
            lengths.append((value * value).sum(-1))
            value = value / np.sqrt(np.maximum(lengths[-1], 1e-30))[..., None]
        elif c.kind == "direction":
            lengths.append((value * value).sum(-1))
            value = value / np.sqrt(np.maximum(lengths[-1], 1e-30))[..., None]
        elif c.kind == "position":
            value = value * shape.unit
            limit = FAR if c.space == "world" else REACH
            if np.abs(value).max(initial=0) > limit:
                raise ValueError(f"{c.name}: expected a position within {limit:g} m, got more; check the units")
        elif np.abs(value).max(initial=0) > 1e4:
            raise ValueError(f"{c.name}: expected a number within 10,000, got more")
        out[c.name] = value
    if lengths and not bool(((np.array(lengths) > 0.25) & (np.array(lengths) < 4.0)).all()):
        raise ValueError(
            "frame: expected quaternions and directions of unit length, got some beyond half or double of it"
        )
    return out


def write_values(channels: Sequence[Channel], values: dict[str, np.ndarray], shape: Layout) -> np.ndarray:
    """The way back of ``read_values``: wire rows (..., n) in rig units and the rig's quaternion order."""
    parts = []
    for c in channels:
        value = values[c.name]
        if c.kind == "rotation" and shape.xyzw:
            value = value[..., [1, 2, 3, 0]]
        parts.append(value / shape.unit if c.kind == "position" else value)
    return np.concatenate(parts, axis=-1)


def encode_inputs(shape: Layout, row: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Wire inputs (..., n) to the trainee's inputs (..., m), and the scene that ``encode_outputs`` and ``decode`` need.

    Raises ValueError as ``read_values`` does, and where a world position is over ``REACH`` from the reference.
    """
    values = read_values(shape.inputs, row, shape)
    origin, turn = values[shape.inputs[0].name], values[shape.inputs[1].name]
    frame = matrix_from_quaternion(turn)
    scene = {"origin": origin, "turn": turn, "frame": frame}
    features = [np.array(shape.up) @ frame]  # up in the reference's axes
    for c in shape.inputs[2:]:
        value = values[c.name]
        if c.space == "world":
            if c.kind == "position":
                value = _into(frame, value - origin)
                if np.abs(value).max(initial=0) > REACH:
                    raise ValueError(f"{c.name}: expected within {REACH:g} m of {shape.inputs[0].name}, got more")
            elif c.kind == "direction":
                value = _into(frame, value)
            elif c.kind == "rotation":
                value = quaternion_multiply(quaternion_conjugate(turn), value)
        scene[c.name] = value
    if shape.name == "legs":
        return _legs_features(scene, features), scene
    rotations = [c.name for c in shape.inputs[2:] if c.kind == "rotation"]
    matrices: dict[str, np.ndarray] = {}
    if rotations:  # all in one call
        stacked = matrix_from_quaternion(np.stack([scene[name] for name in rotations], axis=-2))
        matrices = {name: stacked[..., i, :, :] for i, name in enumerate(rotations)}
    ends = {limb.end: i for i, limb in enumerate(shape.limbs)}
    if ends:
        _circles(shape, scene)
    for c in shape.inputs[2:]:
        if c.kind == "rotation":
            matrix = matrices[c.name]
            end = ends.get(c.name.removesuffix(".rotation") + ".position")
            if end is not None:  # seen from the limb itself, a foot says which way its knee points
                matrix = np.swapaxes(scene["limb.frame"][..., end, :, :], -1, -2) @ matrix
            features += [matrix[..., :, 0], matrix[..., :, 1]]
        else:
            features.append(scene[c.name])
    if ends:
        features.append(scene["limb.radius"])
    return np.concatenate(features, axis=-1), scene


def encode_outputs(shape: Layout, row: np.ndarray, scene: dict[str, np.ndarray]) -> np.ndarray:
    """Wire outputs (..., n) to what the trainee learns (..., sum of ``groups``).

    Raises ValueError as ``encode_inputs`` does.
    """
    values = read_values(shape.outputs, row, shape)
    if shape.name == "legs":
        new = np.stack([values[c.name] for c in shape.outputs], axis=-2)
        step = axis_angle_from_quaternion(quaternion_multiply(quaternion_conjugate(scene["legs.old"]), new))
        return step.reshape(*step.shape[:-2], 18)
    joints = {limb.joint: i for i, limb in enumerate(shape.limbs)}
    parts = []
    for c in shape.outputs:
        value = values[c.name]
        if c.space == "world":
            if c.kind == "position":
                value = _into(scene["frame"], value - scene["origin"])
                if np.abs(value).max(initial=0) > REACH:
                    raise ValueError(f"{c.name}: expected within {REACH:g} m of {shape.inputs[0].name}, got more")
            elif c.kind == "direction":
                value = _into(scene["frame"], value)
            elif c.kind == "rotation":
                value = quaternion_multiply(quaternion_conjugate(scene["turn"]), value)
        if c.name in joints:
            i = joints[c.name]
            local = _into(scene["limb.frame"][..., i, :, :], value - scene["limb.middle"][..., i, :])
            value = local[..., [0, 2]]
        elif c.kind == "rotation":
            matrix = matrix_from_quaternion(value)
            value = np.concatenate([matrix[..., :, 0], matrix[..., :, 1]], axis=-1)
        parts.append(value)
    return np.concatenate(parts, axis=-1)


def decode(shape: Layout, guess: np.ndarray, scene: dict[str, np.ndarray], *, exact: bool = False) -> np.ndarray:
    """What the trainee answers (..., sum of ``groups``) to wire outputs (..., n): unit quaternions, exact lengths.

    ``exact`` (legs only): bends each knee and turns each thigh a little so that the foot's head lies on its target, as
    far as the leg reaches, with the foot's orientation kept.
    """
    guess = np.asarray(guess, np.float64)
    if shape.name == "legs":
        step = guess.reshape(*guess.shape[:-1], 6, 3)
        new = quaternion_multiply(scene["legs.old"], quaternion_from_axis_angle(step))
        new = new / np.linalg.norm(new, axis=-1, keepdims=True)
        if exact:
            new = _place_feet(scene, new)
        return write_values(shape.outputs, {c.name: new[..., i, :] for i, c in enumerate(shape.outputs)}, shape)
    joints = {limb.joint: i for i, limb in enumerate(shape.limbs)}
    values = {}
    at = 0
    for c, size in zip(shape.outputs, groups(shape), strict=True):
        value = guess[..., at : at + size]
        at += size
        if c.name in joints:
            i = joints[c.name]
            length = np.linalg.norm(value, axis=-1, keepdims=True)
            value = np.where(length > 1e-9, value / np.maximum(length, 1e-30), np.array([0.0, 1.0]))
            ring = scene["limb.frame"][..., i, :, :][..., :, [0, 2]]
            offset = np.einsum("...ij,...j->...i", ring, value) * scene["limb.radius"][..., i : i + 1]
            value = scene["limb.middle"][..., i, :] + offset
        elif c.kind == "rotation":
            value = quaternion_from_matrix(_orthonormal(value))
        elif c.kind == "direction":
            value = value / np.maximum(np.linalg.norm(value, axis=-1, keepdims=True), 1e-12)
        if c.space == "world":
            if c.kind == "position":
                value = _out_of(scene["frame"], value) + scene["origin"]
            elif c.kind == "direction":
                value = _out_of(scene["frame"], value)
            elif c.kind == "rotation":
                value = quaternion_multiply(scene["turn"], value)
        values[c.name] = value
    return write_values(shape.outputs, values, shape)


def stray(shape: Layout, row: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
    """The same wire inputs (n) from a previous pose that has strayed, or None where the layout has no previous pose.

    A network that has only seen true previous poses drifts away once its own answers come back as the previous pose.
    From strayed ones it learns the way home (the idea of Laskey et al. 2017, arXiv 1703.09327). The turns are random,
    of a tenth of a degree to some six degrees: larger ones cost more with true previous poses than they gain.
    """
    if shape.name != "legs":
        return None
    out = np.array(row, np.float64)
    size = np.exp(rng.uniform(np.log(0.003), np.log(0.1)))
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
    _, knee, foot, _, turned = _leg_chain(scene, matrix_from_quaternion(rotations))
    return knee, foot, turned


def _legs_features(scene: dict[str, np.ndarray], features: list[np.ndarray]) -> np.ndarray:
    bones = [side + bone for side in SIDES for bone in LEG_BONES]
    old = np.stack([scene[f"{bone}.rotation"] for bone in bones], axis=-2)
    scene["legs.old"] = old
    scene["legs.offsets"] = np.stack([scene[f"{bone}.position"] for bone in bones], axis=-2)
    local = matrix_from_quaternion(old)
    _, _, foot, _, turned = _leg_chain(scene, local)
    target = np.stack([scene[f"{side}Foot.target"] for side in SIDES], axis=-2)
    normal = np.stack([scene[f"{side}Foot.normal"] for side in SIDES], axis=-2)
    hit = np.concatenate([scene[f"{side}Foot.hit"] for side in SIDES], axis=-1)
    lead = old.shape[:-2]
    parts = [
        local[..., :, :2].reshape(*lead, 36),
        turned[..., :, :2].reshape(*lead, 12),
        foot.reshape(*lead, 6),
        target.reshape(*lead, 6),
        (target - foot).reshape(*lead, 6),
        normal.reshape(*lead, 6),
        _into(turned, normal).reshape(*lead, 6),
        hit,
    ]
    return np.concatenate(features + parts, axis=-1)


def _leg_chain(
    scene: dict[str, np.ndarray], local: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Hips, knees, feet (..., 2, 3), and rotations of calves and feet (..., 2, 3, 3), in the pelvis' space."""
    offsets = scene["legs.offsets"]
    hip, to_knee, to_foot = offsets[..., 0::3, :], offsets[..., 1::3, :], offsets[..., 2::3, :]
    thigh = local[..., 0::3, :, :]
    calf = thigh @ local[..., 1::3, :, :]
    knee = hip + _out_of(thigh, to_knee)
    return hip, knee, knee + _out_of(calf, to_foot), calf, calf @ local[..., 2::3, :, :]


def _place_feet(scene: dict[str, np.ndarray], rotations: np.ndarray) -> np.ndarray:
    local = matrix_from_quaternion(rotations)
    hip, knee, foot, calf, turned = _leg_chain(scene, local)
    thigh = local[..., 0::3, :, :]
    target = np.stack([scene[f"{side}Foot.target"] for side in SIDES], axis=-2)
    upper = np.linalg.norm(knee - hip, axis=-1, keepdims=True)
    lower = np.linalg.norm(foot - knee, axis=-1, keepdims=True)
    to = target - hip
    far = np.linalg.norm(to, axis=-1, keepdims=True)
    axis = to / np.maximum(far, 1e-12)
    far = np.clip(far, np.abs(upper - lower) + 1e-6, upper + lower - 1e-6)
    along = (upper**2 - lower**2 + far**2) / (2 * far)
    side = knee - hip
    side = side - axis * (side * axis).sum(-1, keepdims=True)
    side = side / np.maximum(np.linalg.norm(side, axis=-1, keepdims=True), 1e-12)
    new_knee = hip + axis * along + side * np.sqrt(np.maximum(upper**2 - along**2, 0))
    new_thigh = rotation_between(knee - hip, new_knee - hip) @ thigh
    new_calf = rotation_between(foot - knee, hip + axis * far - new_knee) @ calf
    out = np.empty_like(local)
    out[..., 0::3, :, :] = new_thigh
    out[..., 1::3, :, :] = np.swapaxes(new_thigh, -1, -2) @ new_calf
    out[..., 2::3, :, :] = np.swapaxes(new_calf, -1, -2) @ turned
    return quaternion_from_matrix(out)


def _circles(shape: Layout, scene: dict[str, np.ndarray]) -> None:
    """Where each limb's joint can be: middle, radius [m] and a frame whose Y points from the root to the end.

    The frame is the smallest turn from the rest direction: its one singular place is a limb opposite to its rest.
    """
    root = np.array([limb.root for limb in shape.limbs])
    upper, lower = (np.array([getattr(limb, k) for limb in shape.limbs])[:, None] for k in ("upper", "lower"))
    rest = np.array([limb.rest for limb in shape.limbs])
    to = np.stack([scene[limb.end] for limb in shape.limbs], axis=-2) - root
    far = np.linalg.norm(to, axis=-1, keepdims=True)
    axis = to / np.maximum(far, 1e-12)
    # beyond its reach the limb is straight, too near it is folded
    far = np.clip(far, np.abs(upper - lower) + 1e-6, upper + lower)
    along = (upper**2 - lower**2 + far**2) / (2 * far)
    scene["limb.frame"] = rotation_between(rest, axis) @ rotation_between(np.array([0.0, 1.0, 0.0]), rest)
    scene["limb.middle"] = root + axis * along
    scene["limb.radius"] = np.sqrt(np.maximum(upper**2 - along**2, 0))[..., 0]


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
