# SPDX-License-Identifier: GPL-3.0-or-later
"""Channel layouts: which named numbers of a rig's frame go in, and which come out.

``channels.py`` encodes and decodes frames of a layout; ``handshake.py`` makes one from what a client sends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

SIZES = {"position": 3, "rotation": 4, "direction": 3, "number": 1}
"""Numbers of one channel of each kind on the wire."""
FAR = 1e7
"""[m] world positions beyond this are refused; double precision still resolves a micrometre there."""
REACH = 100.0
"""[m] positions further than this from the reference, or from their parent, are refused."""
LEG_BONES = ("Thigh", "Calf", "Foot")
SIDES = ("Left", "Right")


@dataclass(frozen=True)
class Channel:
    """One named value of a frame."""

    name: str
    """The client's own name for it, for example ``LeftFoot.position``."""
    kind: str
    """``position`` [rig units], ``rotation`` (quaternion), ``direction`` or ``number``."""
    space: str = "world"
    """``world`` or ``parent``."""


@dataclass(frozen=True)
class TwoBoneLimb:
    """Two bones of known length whose first joint is fixed in the reference bone (a thigh and a calf on the pelvis)."""

    end: str
    """Input position channel of the end (the ankle)."""
    joint: str
    """Output position channel, in world space, of the joint between the bones (the knee)."""
    root: tuple[float, float, float]
    """Position of the first joint (the hip) in the reference bone's axes [m]."""
    upper: float
    """Length of the first bone [m]."""
    lower: float
    """Length of the second bone [m]."""
    rest: tuple[float, float, float]
    """Direction from the first joint to the end at rest, in the reference bone's axes."""


@dataclass(frozen=True)
class WireIndex:
    """Indices of each kind's numbers in a wire row, so that channels of one kind are processed together."""

    size: int
    """Numbers in a row."""
    positions: np.ndarray
    """(n, 3) indices."""
    rotations: np.ndarray
    """(n, 4) indices, in the order (w, x, y, z)."""
    directions: np.ndarray
    """(n, 3) indices."""
    numbers: np.ndarray
    """(n) indices."""
    in_world: tuple[np.ndarray, np.ndarray, np.ndarray]
    """For positions, rotations and directions: (n, 1) True where the channel is in world space."""
    farthest: np.ndarray
    """(n) [m] largest coordinate of each position: ``FAR`` in world space, else ``REACH``."""
    names: tuple[tuple[str, ...], ...]
    """Names of the positions, rotations, directions and numbers."""


@dataclass(frozen=True)
class ChannelLayout:
    """Input and output channels; made and checked by ``make_layout``, ``legs_layout`` and ``positions_layout``."""

    name: str
    """``legs`` or ``free``."""
    inputs: tuple[Channel, ...]
    """The reference's position and rotation come first."""
    outputs: tuple[Channel, ...]
    limbs: tuple[TwoBoneLimb, ...] = ()
    unit: float = 1.0
    """Metres in one rig unit."""
    xyzw: bool = False
    """True where the wire holds quaternions as (x, y, z, w)."""
    up: tuple[float, float, float] = (0.0, 0.0, 1.0)
    """The vertical in the rig's world."""

    @cached_property
    def vertical(self) -> np.ndarray:
        """``up`` as an array (3)."""
        return np.array(self.up)

    @cached_property
    def input_index(self) -> WireIndex:
        """Indices of the inputs in a wire row."""
        return _wire_index(self.inputs, self.xyzw)

    @cached_property
    def output_index(self) -> WireIndex:
        """Indices of the outputs in a wire row."""
        return _wire_index(self.outputs, self.xyzw)

    @property
    def input_size(self) -> int:
        """Numbers of a frame's inputs on the wire."""
        return self.input_index.size

    @property
    def output_size(self) -> int:
        """Numbers of a frame's outputs on the wire."""
        return self.output_index.size


def make_layout(
    inputs: Sequence[Channel],
    outputs: Sequence[Channel],
    limbs: Sequence[TwoBoneLimb] = (),
    *,
    name: str = "free",
    unit: float = 1.0,
    xyzw: bool = False,
    up: Sequence[float] = (0.0, 0.0, 1.0),
) -> ChannelLayout:
    """Check channels and limbs and build a layout from them.

    Raises ValueError unless the first two inputs are the reference's position and rotation in world space, names are
    unique, kinds and spaces are known, and each limb joins an input to an output, both world positions.
    """
    inputs, outputs, limbs = tuple(inputs), tuple(outputs), tuple(limbs)
    _check_channels(inputs, outputs)
    _check_limbs(inputs, outputs, limbs)
    if not np.isfinite(unit) or not 1e-6 <= unit <= 1e6:
        raise ValueError(f"unit: expected metres in a rig unit between 1e-6 and 1e6, got {unit}")
    vertical = np.asarray(up, np.float64)
    if vertical.shape != (3,) or not np.isclose(np.linalg.norm(vertical), 1):
        raise ValueError(f"up: expected a unit vector, got {up}")
    x, y, z = (float(v) for v in vertical)
    return ChannelLayout(name, inputs, outputs, limbs, float(unit), bool(xyzw), (x, y, z))


def legs_layout(*, unit: float = 1.0, xyzw: bool = False, up: Sequence[float] = (0.0, 0.0, 1.0)) -> ChannelLayout:
    """The built-in layout of two legs, with 63 inputs and 24 outputs.

    In: the pelvis in the world; thigh, calf and foot of each leg relative to their parents, one frame ago; for each foot
    the target of its head, the normal under its sole, and whether there is ground (0 or 1).
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
    return make_layout(inputs, outputs, name="legs", unit=unit, xyzw=xyzw, up=up)


def positions_layout(
    reference: str,
    known: Sequence[str],
    predicted: Sequence[str],
    limbs: Sequence[TwoBoneLimb] = (),
    *,
    rotations: bool = True,
    parent_space: bool = False,
    unit: float = 1.0,
    xyzw: bool = False,
    up: Sequence[float] = (0.0, 0.0, 1.0),
) -> ChannelLayout:
    """The built-in layout that predicts positions of ``predicted`` bones from positions of ``known`` ones.

    ``rotations`` adds the known bones' world rotations to the inputs. With ``parent_space``, predicted positions are
    relative to the bones' parents instead of in the world.
    """
    inputs = [Channel(f"{reference}.position", "position"), Channel(f"{reference}.rotation", "rotation")]
    for bone in known:
        inputs.append(Channel(f"{bone}.position", "position"))
        if rotations:
            inputs.append(Channel(f"{bone}.rotation", "rotation"))
    outputs = [Channel(f"{bone}.position", "position", "parent" if parent_space else "world") for bone in predicted]
    return make_layout(inputs, outputs, limbs, unit=unit, xyzw=xyzw, up=up)


def groups(layout: ChannelLayout) -> tuple[int, ...]:
    """How many numbers the trainee learns for each output channel, in order."""
    if layout.name == "legs":
        return (3,) * 8  # six rotations, two soles
    known = ends_with_rotation(layout)
    joints = {limb.joint: 3 if rotated else 2 for limb, rotated in zip(layout.limbs, known, strict=True)}
    return tuple(joints.get(c.name, 6 if c.kind == "rotation" else SIZES[c.kind]) for c in layout.outputs)


def ends_with_rotation(layout: ChannelLayout) -> list[bool]:
    """For each limb, whether the rotation of its end is an input too."""
    names = {c.name for c in layout.inputs if c.kind == "rotation"}
    return [end_rotation(limb) in names for limb in layout.limbs]


def end_rotation(limb: TwoBoneLimb) -> str:
    """Name of the channel that would hold the rotation of a limb's end."""
    return limb.end.removesuffix(".position") + ".rotation"


def _check_channels(inputs: tuple[Channel, ...], outputs: tuple[Channel, ...]) -> None:
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


def _check_limbs(inputs: tuple[Channel, ...], outputs: tuple[Channel, ...], limbs: tuple[TwoBoneLimb, ...]) -> None:
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


def _wire_index(channels: tuple[Channel, ...], xyzw: bool) -> WireIndex:
    found: dict[str, list[tuple[Channel, list[int]]]] = {kind: [] for kind in SIZES}
    at = 0
    for c in channels:
        indices = list(range(at, at + SIZES[c.kind]))
        if c.kind == "rotation" and xyzw:
            indices = [indices[3], *indices[:3]]
        found[c.kind].append((c, indices))
        at += SIZES[c.kind]
    index = {kind: np.array([i for _, i in have], int).reshape(-1, SIZES[kind]) for kind, have in found.items()}
    world = {
        kind: np.array([[c.space == "world"] for c, _ in have], bool).reshape(-1, 1) for kind, have in found.items()
    }
    return WireIndex(
        at,
        index["position"],
        index["rotation"],
        index["direction"],
        index["number"][:, 0],
        (world["position"], world["rotation"], world["direction"]),
        np.where(world["position"][:, 0], FAR, REACH),
        tuple(tuple(c.name for c, _ in found[kind]) for kind in SIZES),
    )
