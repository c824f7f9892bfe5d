# SPDX-License-Identifier: GPL-3.0-or-later
"""Encoding of a rig's frames for the trainee, and decoding of its answers.

On the wire a frame is a row of numbers in the rig's own world, units and quaternion order. It is encoded as a row of
features in the space of one bone, the *reference* (the pelvis), so that the rig's position and heading do not matter.
A channel in ``world`` space is expressed in the reference's frame; one in ``parent`` space is relative to its parent bone
already and stays as it is. The reference's tilt against the vertical stays visible (three numbers).

Two structures are computed instead of learned where they are declared:

- a *limb* (hip, knee, ankle): from the ankle's position the knee lies on a circle, and only its angle there is learned, so
  bone lengths are exact. Where the ankle's rotation is known too, the angle is described by the hinge in the foot's axes.
  This hardly changes with the leg's pose: what was learned from a walk holds in a jump (``limb_circles.py``);
- the *legs* layout (63 -> 24): the previous pose is first put onto the new targets, with the knees bent about their own
  hinges (``leg_reach.py``). The small rotation of each bone from there, and the sole's direction in the foot, are learned.

All functions take free leading axes: one frame (n) or many (F, n).
"""

from __future__ import annotations

import numpy as np

from ..core import quick_rotations as quick
from ..core.rotations import (
    axis_angle_from_quaternion,
    quaternion_from_axis_angle,
    quaternion_from_matrix,
    quaternion_multiply,
)
from .layouts import FAR, REACH, SIZES, ChannelLayout, WireIndex, ends_with_rotation, groups
from .leg_reach import legs_features, legs_forward, reached
from .limb_circles import add_circles, decode_joint, encode_joint, limb_indices
from .vectors import into_frame, length, orthonormal, out_of_frame, unit


def feature_count(layout: ChannelLayout) -> int:
    """How many features the inputs of a layout become."""
    rest = {"rotation": np.eye(4)[3 if layout.xyzw else 0], "direction": np.eye(3)[0]}
    row = np.concatenate([rest.get(c.kind, np.zeros(SIZES[c.kind])) for c in layout.inputs])
    return int(encode_inputs(layout, row)[0].shape[-1])


def read_values(
    index: WireIndex, row: np.ndarray, layout: ChannelLayout
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Wire rows (..., n) as positions (..., p, 3) [m], unit quaternions (..., q, 4), directions (..., d, 3), numbers (..., k).

    Raises ValueError for a wrong length, NaN, infinity, positions beyond ``FAR`` or, in parent space, ``REACH``, numbers
    beyond 10,000, and quaternions or directions that are far from unit length.
    """
    row = np.asarray(row, np.float64)
    if row.shape[-1:] != (index.size,):
        raise ValueError(f"frame: expected {index.size} numbers, got {row.shape[-1] if row.ndim else 0}")
    # one comparison finds NaN, infinity and absurd values: NaN fails it too
    if not bool((np.abs(row) <= FAR / min(layout.unit, 1.0)).all()):
        raise ValueError(f"frame: expected finite numbers within {FAR:g} m, got NaN, infinity or more; check the units")
    positions = row[..., index.positions] * layout.unit
    far = np.abs(positions).max(initial=0, axis=-1)
    if bool((far > index.farthest).any()):
        raise ValueError(f"frame: expected positions within {REACH:g} m of their parent, got more; check the units")
    numbers = row[..., index.numbers]
    if numbers.size and np.abs(numbers).max() > 1e4:
        raise ValueError("frame: expected numbers within 10,000, got more")
    rotations = _checked_unit(row[..., index.rotations])
    directions = row[..., index.directions]
    return positions, rotations, _checked_unit(directions) if len(index.directions) else directions, numbers


def write_values(
    index: WireIndex,
    values: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    layout: ChannelLayout,
) -> np.ndarray:
    """The inverse of ``read_values``: wire rows (..., n) in rig units and the rig's quaternion order."""
    positions, rotations, directions, numbers = values
    out = np.empty((*positions.shape[:-2], index.size))
    out[..., index.positions] = positions / layout.unit
    out[..., index.rotations] = rotations
    out[..., index.directions] = directions
    out[..., index.numbers] = numbers
    return out


def encode_inputs(layout: ChannelLayout, row: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Wire inputs (..., n) to the trainee's inputs (..., m), and the scene that ``encode_outputs`` and ``decode`` need.

    The scene holds the reference's ``origin`` (..., 3) [m], ``turn`` (..., 4) and ``frame`` (..., 3, 3), and what
    ``leg_reach.py`` and ``limb_circles.py`` add. Raises ValueError as ``read_values`` does, and where a world position is
    over ``REACH`` from the reference.
    """
    positions, rotations, directions, numbers = read_values(layout.input_index, row, layout)
    turn = rotations[..., 0, :]
    scene = {"origin": positions[..., 0, :], "turn": turn, "frame": quick.matrix_from_quaternion(turn)}
    positions, rotations, directions = _into_reference(
        layout.input_index, (positions, rotations, directions), scene, layout
    )
    positions, rotations = positions[..., 1:, :], rotations[..., 1:, :]
    up = layout.vertical @ scene["frame"]  # in the reference's axes
    if layout.name == "legs":
        return legs_features(scene, up, positions, rotations, directions, numbers), scene
    lead = up.shape[:-1]
    turned = quick.matrix_from_quaternion(rotations)
    features = [up, positions.reshape(*lead, -1)]
    if layout.limbs:
        ends, feet, limbs = limb_indices(layout)
        add_circles(layout, scene, positions[..., ends, :])
        features.append(scene["limb.radius"])
        if len(feet):  # the end's orientation in its limb's frame, and the limb's direction in the end's axes
            scene["limb.end"] = np.zeros((*lead, len(layout.limbs), 3, 3))
            scene["limb.end"][..., limbs, :, :] = turned[..., feet, :, :]
            seen = np.swapaxes(scene["limb.frame"][..., limbs, :, :], -1, -2) @ turned[..., feet, :, :]
            turned = turned.copy()
            turned[..., feet, :, :] = seen
            features.append(seen[..., 1, :].reshape(*lead, -1))
    features += [turned[..., :2].reshape(*lead, -1), directions.reshape(*lead, -1), numbers]
    return np.concatenate(features, axis=-1), scene


def encode_outputs(layout: ChannelLayout, row: np.ndarray, scene: dict[str, np.ndarray]) -> np.ndarray:
    """Wire outputs (..., n) to what the trainee learns (..., sum of ``groups``).

    Raises ValueError as ``encode_inputs`` does.
    """
    positions, rotations, directions, numbers = read_values(layout.output_index, row, layout)
    if layout.name == "legs":
        step = axis_angle_from_quaternion(quick.quaternion_multiply(scene["legs.base"] * quick.CONJUGATE, rotations))
        _, _, turned = legs_forward(scene, rotations)
        soles = into_frame(turned, scene["legs.normal"])
        return np.concatenate([step, soles], axis=-2).reshape(*step.shape[:-2], 24)
    positions, rotations, directions = _into_reference(
        layout.output_index, (positions, rotations, directions), scene, layout
    )
    joints = {limb.joint: i for i, limb in enumerate(layout.limbs)}
    rotated = ends_with_rotation(layout)
    sixd = np.swapaxes(quick.matrix_from_quaternion(rotations)[..., :2], -1, -2).reshape(*rotations.shape[:-1], 6)
    at = dict.fromkeys(SIZES, 0)
    parts = []
    for c in layout.outputs:
        i = at[c.kind]
        at[c.kind] += 1
        if c.name in joints:
            limb = joints[c.name]
            parts.append(encode_joint(scene, limb, positions[..., i, :], rotated[limb]))
        elif c.kind == "position":
            parts.append(positions[..., i, :])
        elif c.kind == "rotation":
            parts.append(sixd[..., i, :])
        elif c.kind == "direction":
            parts.append(directions[..., i, :])
        else:
            parts.append(numbers[..., i : i + 1])
    return np.concatenate(parts, axis=-1)


def decode(
    layout: ChannelLayout, guess: np.ndarray, scene: dict[str, np.ndarray], *, exact: bool = False
) -> np.ndarray:
    """The trainee's answers (..., sum of ``groups``) to wire outputs (..., n), with unit quaternions and exact lengths.

    ``exact`` (legs only) adds an exact step after the network: it tilts each foot until its sole's normal is the target's,
    then bends the knee about its hinge and swings the thigh until the foot's head is on its target, as far as the leg
    reaches. The network still decides which way the knee points and how the foot turns about the normal. Raises ValueError
    where a leg has no length.
    """
    guess = np.asarray(guess, np.float64)
    lead = guess.shape[:-1]
    nothing = np.zeros((*lead, 0, 3))
    if layout.name == "legs":
        parts = guess.reshape(*lead, 8, 3)
        turns = quick.quaternion_from_axis_angle(parts[..., :6, :].reshape(-1, 3)).reshape(*lead, 6, 4)
        new = unit(quick.quaternion_multiply(scene["legs.base"], turns))
        if exact:
            new = unit(reached(scene, new, parts[..., 6:, :])[0])
        return write_values(layout.output_index, (nothing, new, nothing, nothing[..., 0]), layout)
    found = _decode_channels(layout, guess, scene)
    numbers = np.stack(found["number"], axis=-1) if found["number"] else nothing[..., 0]
    positions, directions = (np.stack(v, axis=-2) if v else nothing for v in (found["position"], found["direction"]))
    rotations = np.stack(found["rotation"], axis=-2) if found["rotation"] else np.zeros((*lead, 0, 4))
    in_world = layout.output_index.in_world
    frame = scene["frame"][..., None, :, :]
    moved = out_of_frame(frame, positions) + scene["origin"][..., None, :]
    positions = np.where(in_world[0], moved, positions)
    rotations = np.where(in_world[1], quick.quaternion_multiply(scene["turn"][..., None, :], rotations), rotations)
    directions = np.where(in_world[2], out_of_frame(frame, directions), directions)
    return write_values(layout.output_index, (positions, rotations, directions, numbers), layout)


def stray(layout: ChannelLayout, row: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
    """The same wire inputs (n) with noise on the previous pose; None where the layout has no previous pose.

    A network that has only seen true previous poses drifts away once its own answers come back as the previous pose. With
    disturbed ones it learns to recover (the idea of Laskey et al. 2017, arXiv 1703.09327). The rotations are random, from
    a twentieth of a degree to about six degrees: larger ones cost more with true previous poses than they gain.
    """
    if layout.name != "legs":
        return None
    out = np.array(row, np.float64)
    size = np.exp(rng.uniform(np.log(0.001), np.log(0.1)))
    noise = quaternion_from_axis_angle(rng.standard_normal((6, 3)) * size * rng.uniform(size=(6, 1)))
    bones = out[7:49].reshape(6, 7)  # a view
    old = bones[:, [6, 3, 4, 5]] if layout.xyzw else bones[:, 3:]
    new = quaternion_multiply(old, noise)
    bones[:, 3:] = new[:, [1, 2, 3, 0]] if layout.xyzw else new
    return out


def _decode_channels(
    layout: ChannelLayout, guess: np.ndarray, scene: dict[str, np.ndarray]
) -> dict[str, list[np.ndarray]]:
    """The answers by kind, in the order of the outputs, still in the reference's space."""
    joints = {limb.joint: i for i, limb in enumerate(layout.limbs)}
    rotated = ends_with_rotation(layout)
    found: dict[str, list[np.ndarray]] = {kind: [] for kind in SIZES}
    at = 0
    for c, size in zip(layout.outputs, groups(layout), strict=True):
        value = guess[..., at : at + size]
        at += size
        if c.name in joints:
            limb = joints[c.name]
            value = decode_joint(scene, limb, value, rotated[limb])
        elif c.kind == "rotation":
            value = quaternion_from_matrix(orthonormal(value))
        elif c.kind == "direction":
            value = value / np.maximum(np.linalg.norm(value, axis=-1, keepdims=True), 1e-12)
        elif c.kind == "number":
            value = value[..., 0]
        found[c.kind].append(value)
    return found


def _into_reference(
    index: WireIndex,
    values: tuple[np.ndarray, np.ndarray, np.ndarray],
    scene: dict[str, np.ndarray],
    layout: ChannelLayout,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, rotations and directions with those in world space expressed in the reference's frame."""
    positions, rotations, directions = values
    in_world = index.in_world
    frame = scene["frame"][..., None, :, :]
    if positions.shape[-2]:
        moved = into_frame(frame, positions - scene["origin"][..., None, :])
        positions = np.where(in_world[0], moved, positions)
        if np.abs(positions).max(initial=0) > REACH:
            raise ValueError(f"frame: expected positions within {REACH:g} m of {layout.inputs[0].name}, got more")
    if rotations.shape[-2]:
        back = scene["turn"][..., None, :] * quick.CONJUGATE
        rotations = np.where(in_world[1], quick.quaternion_multiply(back, rotations), rotations)
    if directions.shape[-2]:
        directions = np.where(in_world[2], into_frame(frame, directions), directions)
    return positions, rotations, directions


def _checked_unit(vectors: np.ndarray) -> np.ndarray:
    """Unit vectors (..., n); raises ValueError where a length is under a half or over 2."""
    size = length(vectors)
    if not bool(((size > 0.5) & (size < 2.0)).all()):
        raise ValueError(
            "frame: expected quaternions and directions of unit length, got some shorter than 0.5 or longer than 2"
        )
    out: np.ndarray = vectors / size
    return out
