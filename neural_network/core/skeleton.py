# SPDX-License-Identifier: GPL-3.0-or-later
"""Skeleton: the bones of one character at rest, and everything that is computed from them once.

The core works in *core axes* on the *T-posed rest*: +X is the character's left, -Y where it faces, +Z up, and a rotation
of zero is the T-pose. A bone's core rotation is the axis-angle turn relative to its parent, written in these axes, so it
does not depend on how a rig rolls its bones. ``to_core`` and ``from_core`` convert between this and ``rot_local``, the
pose-bone basis that Blender shows and files hold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from . import rotations, tree
from .tree import chain, limb

REST_TOLERANCE = np.radians(10)  # a limb nearer than this to the T-pose stays as the rig has it
FARTHEST = 1e9  # [m] larger numbers are not metres, and their squares overflow float32
MOST_TURNED = 1e3  # [rad] 160 turns: larger numbers are not radians, and float32 loses the fraction of a turn


class SkeletonMismatch(ValueError):
    """Weights or poses belong to another skeleton. The message lists the differences."""


@dataclass(frozen=True)
class Skeleton:
    """The rest pose of a character. Build it with :func:`make`, which checks its arguments."""

    names: tuple[str, ...]
    """(J) bone names, parents before children; the first is the root (the Hips)."""
    parents: np.ndarray
    """(J) int, -1 for the root only."""
    rest_arm: np.ndarray
    """(J, 4, 4) rest matrices [m, armature space], bone Y along the bone."""
    effectors: tuple[int, ...]
    """Bones whose head and orientation are targets."""
    feet: tuple[int, ...]
    """The effectors that stand on the ground, left before right."""
    t_pose: np.ndarray
    """(J, 3) rot_local [rad] that carries the rest into the T-pose; zeros where the rest is one."""
    limits: np.ndarray | None = None
    """(J, 6) [rad] lower and upper bound of swing about bone X, twist about bone Y, swing about bone Z; NaN: free."""
    limits_about: np.ndarray | None = None
    """(J, 3, 3) axes that ``limits`` are about, where these are not the bone's own, because the limits come from a rig with other rolls."""

    @property
    def count(self) -> int:
        """Number of bones."""
        return len(self.names)

    @cached_property
    def axes(self) -> np.ndarray:
        """(3, 3) rotation from armature axes to core axes."""
        return _axes(self.parents, _posed_rest(self.parents, self.rest_arm, self.t_pose), self.feet)

    @cached_property
    def rest_core(self) -> np.ndarray:
        """(J, 4, 4) T-posed rest matrices [m, core axes], origin where the armature's is."""
        turn = np.eye(4)
        turn[:3, :3] = self.axes
        return turn @ _posed_rest(self.parents, self.rest_arm, self.t_pose)

    @cached_property
    def basis(self) -> np.ndarray:
        """(J, 3, 3) orientation of each bone in the T-posed rest [core axes]; carries bone axes to core axes."""
        return np.ascontiguousarray(self.rest_core[:, :3, :3])

    @property
    def limit_axes(self) -> np.ndarray:
        """(J, 3, 3) the axes that ``limits`` are about [core axes]."""
        return self.basis if self.limits_about is None else self.limits_about

    @cached_property
    def offsets(self) -> np.ndarray:
        """(J, 3) head of each bone relative to its parent's in the T-pose [m, core axes]; zero for the root."""
        heads = self.rest_core[:, :3, 3]
        return np.where(self.parents[:, None] < 0, 0.0, heads - heads[np.maximum(self.parents, 0)])

    @cached_property
    def toes(self) -> tuple[int, ...]:
        """For each foot its toe bone, or the foot itself where the rig has none."""
        children = [np.flatnonzero(self.parents == foot) for foot in self.feet]
        return tuple(int(found[0]) if len(found) else foot for found, foot in zip(children, self.feet, strict=True))

    @cached_property
    def legs(self) -> tuple[tuple[int, int, int], ...]:
        """For each foot the bones (thigh, shin, foot); see :func:`limb`."""
        return tuple(limb(self.parents, self.rest_arm[:, :3, 3], foot) for foot in self.feet)

    @cached_property
    def leg_length(self) -> float:
        """[m] mean over legs of thigh-to-shin plus shin-to-foot; without feet, the mean reach of the effectors."""
        heads = self.rest_arm[:, :3, 3]
        if self.feet:
            lengths = [
                np.linalg.norm(heads[b] - heads[a]) + np.linalg.norm(heads[c] - heads[b]) for a, b, c in self.legs
            ]
        else:
            lengths = [np.linalg.norm(self.offsets[chain(self.parents, e)], axis=1).sum() for e in self.effectors]
        return float(np.mean(lengths))

    @cached_property
    def body_length(self) -> float:
        """[m] height of the rest pose or, if longer, the largest distance across its unpaired parts, such as beak to tail.

        A limb is paired if another effector's chain from the root is as long and ends as high (both within 2 % of the extent).
        """
        heads = self.rest_arm[:, :3, 3] @ self.axes.T
        extent = float(np.ptp(heads, axis=0).max())
        ways = [chain(self.parents, e) for e in self.effectors]
        reach = np.array([np.linalg.norm(self.offsets[way], axis=1).sum() for way in ways])
        height = heads[list(self.effectors), 2]
        alike = np.abs(reach[:, None] - reach) + np.abs(height[:, None] - height) < 0.02 * extent
        single = [way for way, same in zip(ways, alike, strict=True) if same.sum() == 1]
        middle = heads[sorted({0}.union(*single))]
        across = float(np.linalg.norm(middle[:, None] - middle, axis=-1).max())
        return max(float(np.ptp(heads[:, 2])), across) or extent

    @cached_property
    def foot_rest(self) -> np.ndarray:
        """(feet, 2) [m] height of each foot's ankle and toe in the T-pose above the floor of the T-pose."""
        heights = np.array(
            [[self.rest_core[f, 2, 3], self.rest_core[t, 2, 3]] for f, t in zip(self.feet, self.toes, strict=True)]
        )
        return np.zeros((0, 2)) if not self.feet else heights - self.floor

    @cached_property
    def floor(self) -> float:
        """[m, core axes] height of the floor under the T-pose: zero where the feet are about at the height of the armature's origin.

        If the lowest foot or toe is below zero or above 0.3 leg lengths, the rest pose hangs in the air and that bone is the floor.
        """
        if not self.feet:
            return float(self.rest_core[:, 2, 3].min())
        lowest = float(min(self.rest_core[b, 2, 3] for b in (*self.feet, *self.toes)))
        return 0.0 if -0.02 * self.leg_length <= lowest <= 0.3 * self.leg_length else lowest

    @cached_property
    def levels(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Bones by depth below the root, as (indices, parents' indices): batched forward kinematics takes a level at a time."""
        return tree.levels(self.parents)

    @cached_property
    def steps(self) -> np.ndarray:
        """(J, 4, 4) each bone's rest matrix relative to its parent's [m]; the root's own rest matrix [armature space]."""
        return _steps(self.parents, self.rest_arm)

    @cached_property
    def subtree(self) -> np.ndarray:
        """(J, J) 1.0 where the column's bone is the row's or hangs below it."""
        out = np.eye(self.count)
        for j in range(self.count - 1, 0, -1):
            out[self.parents[j]] += out[j]
        return out

    @cached_property
    def fingerprint(self) -> str:
        """Short hash of names, parents, effectors and feet: the same for every body of one topology, whatever its proportions."""
        text = "\n".join((*self.names, *map(str, self.parents), *map(str, self.effectors), *map(str, self.feet)))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_core(self, rot_local: np.ndarray) -> np.ndarray:
        """rot_local (..., J, 3) [rad] to core rotations (..., J, 3) [rad], shortest axis-angle."""
        quaternion = rotations.quaternion_from_axis_angle(np.asarray(rot_local, np.float64))
        back = rotations.quaternion_conjugate(rotations.quaternion_from_axis_angle(self.t_pose))
        turned = rotations.axis_angle_from_quaternion(
            rotations.quaternion_multiply(np.broadcast_to(back, quaternion.shape), quaternion)
        )
        return np.einsum("jab,...jb->...ja", self.basis, turned)

    def from_core(self, rot: np.ndarray) -> np.ndarray:
        """Core rotations (..., J, 3) [rad] to rot_local (..., J, 3) [rad], shortest axis-angle."""
        turned = np.einsum("jba,...jb->...ja", self.basis, np.asarray(rot, np.float64))
        quaternion = rotations.quaternion_from_axis_angle(turned)
        pose = np.broadcast_to(rotations.quaternion_from_axis_angle(self.t_pose), quaternion.shape)
        return rotations.axis_angle_from_quaternion(rotations.quaternion_multiply(pose, quaternion))

    def require_same(self, other: Skeleton, what: str) -> None:
        """Raise :class:`SkeletonMismatch` with the differences unless ``other``, the skeleton of ``what``, has this topology."""
        if self.fingerprint == other.fingerprint:
            return
        ours, theirs = set(self.names), set(other.names)
        parts = [f"expected {self.count} bones, got {other.count}"] if self.count != other.count else []
        parts += [f"{what} has no bone {', '.join(sorted(ours - theirs)[:6])}"] if ours - theirs else []
        parts += [f"{what} has other bones: {', '.join(sorted(theirs - ours)[:6])}"] if theirs - ours else []
        parts += ["the order of bones, their parents, effectors or feet differ"] if not parts or ours == theirs else []
        raise SkeletonMismatch(
            f"{what} belongs to another skeleton: {'; '.join(parts)}. Train for this rig, or load its own weights."
        )

    def proportion_difference(self, other: Skeleton) -> float:
        """Largest difference of bone offsets between two skeletons of one topology, in leg lengths."""
        return float(np.abs(self.offsets / self.leg_length - other.offsets / other.leg_length).max())


def make(
    names: Sequence[str],
    parents: np.ndarray,
    rest_arm: np.ndarray,
    effectors: Sequence[str],
    feet: Sequence[str],
    t_pose: np.ndarray | None = None,
    limits: np.ndarray | None = None,
) -> Skeleton:
    """A checked Skeleton from names (J), parents (J), rest_arm (J, 4, 4) [m], and the names of effectors and feet.

    Without ``t_pose`` (J, 3) [rad] it is found from the limbs: arms and legs more than 10 degrees away from the reference
    T-pose are turned into it. ``limits`` are as in :class:`Skeleton`. Raises ValueError for arguments that do not fit.
    """
    names = tuple(str(n) for n in names)
    parents = np.asarray(parents, int)
    rest_arm = np.array(rest_arm, np.float64)
    _check_bones(names, parents, rest_arm)
    _check_ends(names, effectors, feet)
    index = {n: i for i, n in enumerate(names)}
    limbs = tuple(index[n] for n in effectors)
    standing = tuple(index[n] for n in feet)
    limits = None if limits is None else _checked_limits(limits, len(names))
    if t_pose is None:
        t_pose = find_t_pose(parents, rest_arm, limbs, standing)
    t_pose = np.asarray(t_pose, np.float64)
    if t_pose.shape != (len(names), 3) or not (np.abs(t_pose) <= MOST_TURNED).all():
        raise ValueError(f"skeleton: expected a finite T-pose ({len(names)}, 3) in radians, got {t_pose.shape}")
    skeleton = Skeleton(names, parents, rest_arm, limbs, standing, t_pose, limits)
    if not skeleton.leg_length > 1e-9:
        raise ValueError("skeleton: the legs have no length; check which bones are the feet")
    return skeleton


def _check_bones(names: tuple[str, ...], parents: np.ndarray, rest_arm: np.ndarray) -> None:
    count = len(names)
    if count == 0 or parents.shape != (count,) or rest_arm.shape != (count, 4, 4):
        raise ValueError(
            f"skeleton: expected {count} parents and rest matrices ({count}, 4, 4), got {parents.shape} and {rest_arm.shape}"
        )
    if len(set(names)) != count:
        raise ValueError(f"skeleton: bone names must differ, got {_repeated(names)} twice")
    if parents[0] != -1 or np.any(parents[1:] < 0) or np.any(parents >= np.arange(count)):
        raise ValueError("skeleton: expected one root first and parents before children; sort the bones that way")
    if not (np.abs(rest_arm) <= FARTHEST).all():
        raise ValueError(f"skeleton: rest matrices must be finite, in metres below {FARTHEST:g}")
    turns = rest_arm[:, :3, :3]
    if np.abs(turns @ turns.transpose(0, 2, 1) - np.eye(3)).max() > 1e-3 or np.any(np.linalg.det(turns) < 0):
        raise ValueError("skeleton: rest matrices must be rotations with a position, without scale or mirroring")
    if np.abs(rest_arm[:, 3] - [0, 0, 0, 1]).max() > 1e-6:
        raise ValueError("skeleton: the last row of each rest matrix must be 0, 0, 0, 1")
    if not np.ptp(rest_arm[:, :3, 3], axis=0).max() > 1e-9:
        raise ValueError("skeleton: all bones lie in one point (zero size); apply the armature's scale")


def _check_ends(names: tuple[str, ...], effectors: Sequence[str], feet: Sequence[str]) -> None:
    for listed in (effectors, feet):
        if len(set(listed)) != len(listed):
            raise ValueError(f"skeleton: effectors and feet must differ, got {_repeated(listed)} twice")
    missing = [n for n in (*effectors, *feet) if n not in names]
    if missing:
        raise ValueError(f"skeleton: no bone called {', '.join(missing)}; there are {', '.join(names[:30])}")
    if not effectors:
        raise ValueError("skeleton: expected at least one effector, got none")
    if set(feet) - set(effectors):
        raise ValueError(f"skeleton: feet must be effectors too, got {', '.join(set(feet) - set(effectors))}")


def _checked_limits(limits: np.ndarray, count: int) -> np.ndarray:
    limits = np.asarray(limits, np.float64)
    if limits.shape != (count, 6) or np.any(limits[:, ::2] > limits[:, 1::2]):
        raise ValueError(f"skeleton: expected limits ({count}, 6) as lower, upper pairs [rad], got {limits.shape}")
    if np.any(np.abs(limits) > MOST_TURNED):
        raise ValueError(f"skeleton: expected limits in radians (NaN: free), got {np.nanmax(np.abs(limits)):.3g}")
    return limits


def find_t_pose(parents: np.ndarray, rest_arm: np.ndarray, effectors: Sequence[int], feet: Sequence[int]) -> np.ndarray:
    """rot_local (J, 3) [rad] that turns arms sideways and legs down where the rest has them elsewhere (an A-pose).

    The limbs are those that end in the effectors. Only skeletons with two feet, left then right, are turned; any other
    (a creature, one foot) keeps its rest as its T-pose.
    """
    out = np.zeros((len(parents), 3))
    if len(feet) != 2:
        return out
    rest = rest_arm
    axes = _axes(parents, rest, tuple(feet))
    heads = rest[:, :3, 3] @ axes.T
    middle, extent = heads[0, 0], np.ptp(heads, axis=0).max()
    wanted: dict[int, tuple[int, np.ndarray]] = {}
    for end in effectors:
        upper, lower, end = limb(parents, rest[:, :3, 3], end)
        if end in feet:
            wanted[upper] = (lower, np.array([0.0, 0, -1]))
            wanted[lower] = (end, _SHIN)
        elif (
            abs(heads[upper, 0] - middle) > 0.03 * extent and abs(heads[end, 0] - middle) > 0.03 * extent
        ):  # not the head
            side = np.array([np.sign(heads[end, 0] - middle), 0, 0])
            wanted[upper] = (lower, side)
            wanted[lower] = (end, side)
    for bone in sorted(wanted):
        lower, direction = wanted[bone]
        posed = _posed_rest(parents, rest, out)
        now = axes @ (posed[lower, :3, 3] - posed[bone, :3, 3])
        turn = rotations.rotation_between(now, direction)
        if rotations.geodesic_angle(turn, np.eye(3)) > REST_TOLERANCE:
            orientation = axes @ posed[bone, :3, :3]
            out[bone] = rotations.axis_angle_from_matrix(orientation.T @ turn @ orientation)
    return out


_SHIN = np.array(
    [0.0, 0.16, -0.987]
)  # a straight leg's shin runs a little back from knee to ankle, as the reference rig's does


def _posed_rest(parents: np.ndarray, rest_arm: np.ndarray, t_pose: np.ndarray) -> np.ndarray:
    if not np.any(t_pose):
        return rest_arm
    turns = rotations.matrix_from_axis_angle(t_pose)
    out = rest_arm.copy()
    for j, parent in enumerate(parents):
        if parent >= 0:
            out[j] = out[parent] @ np.linalg.inv(rest_arm[parent]) @ rest_arm[j]
        out[j, :3, :3] = out[j, :3, :3] @ turns[j]
    return out


def _steps(parents: np.ndarray, rest_arm: np.ndarray) -> np.ndarray:
    out = rest_arm.copy()
    below = np.flatnonzero(parents >= 0)
    out[below] = np.linalg.inv(rest_arm[parents[below]]) @ rest_arm[below]
    return out


def _axes(parents: np.ndarray, rest: np.ndarray, feet: Sequence[int]) -> np.ndarray:
    """Rows: the character's left, back and up, found from two feet; the armature's own axes where there are not two."""
    if len(feet) != 2:
        return np.eye(3)
    heads = rest[:, :3, 3]
    thighs = [limb(parents, heads, foot)[0] for foot in feet]
    fork = next((bone for bone in chain(parents, feet[0])[1:] if bone in chain(parents, feet[1])[1:]), 0)
    body = heads[fork] - heads[list(feet)].mean(
        axis=0
    )  # not the thighs: an animal's metatarsals count as such, and lie
    up = np.zeros(3)
    main = int(np.argmax(np.abs(body)))
    up[main] = np.sign(body[main]) or 1.0
    left = heads[thighs[0]] - heads[thighs[1]]
    left = left - up * (left @ up)
    length = np.linalg.norm(left)
    if not length > 1e-6 * np.linalg.norm(body):
        return np.eye(3)
    left = left / length
    axis = int(np.argmax(np.abs(left)))
    nearest = np.eye(3)[axis] * np.sign(left[axis])
    if left @ nearest > 0.995:  # within 6 degrees of an axis the rig means that axis
        left = nearest
    return np.stack([left, np.cross(up, left), up])


def _repeated(names: Sequence[str]) -> str:
    return next(n for i, n in enumerate(names) if n in names[:i])


def mirrored_bones(skeleton: Skeleton) -> np.ndarray:
    """(J) index of each bone's partner on the other side of the T-pose, itself where there is none."""
    heads = skeleton.rest_core[:, :3, 3]
    flipped = heads * [-1, 1, 1] + [2 * heads[0, 0], 0, 0]
    apart = np.linalg.norm(heads[None] - flipped[:, None], axis=-1)
    best = np.argmin(apart, axis=1)
    near = apart[np.arange(len(best)), best] < 0.1 * skeleton.leg_length
    return np.where(near & (best[best] == np.arange(len(best))), best, np.arange(len(best)))
