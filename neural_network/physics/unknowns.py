# SPDX-License-Identifier: GPL-3.0-or-later
"""What Make Physical may change of a frame, as 31 numbers, and how a body and its wrench follow from them.

The root's place (3), turns of the Hips, of the spine (shared by its three bones), of both upper arms and thighs (3 each), of the feet
(3), and the angles of knees and toes (1). A turn q makes exp(q) R of a bone's local rotation R. Everything is 0 in the input.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..core import rotations
from ..core.skeleton import Skeleton
from ..ik.foot_pins import forward
from .masses import GRAVITY, Masses

PLACE = slice(0, 3)
TURNS = (
    ("Hips", ("Hips",), 3),
    ("spine", ("Spine", "Spine1", "Spine2"), 3),
    ("arms", ("LeftArm",), 3),
    ("arms", ("RightArm",), 3),
    ("legs", ("LeftThigh",), 3),
    ("legs", ("LeftShin",), 1),
    ("legs", ("LeftFoot",), 3),
    ("toes", ("LeftToeBase",), 1),
    ("legs", ("RightThigh",), 3),
    ("legs", ("RightShin",), 1),
    ("legs", ("RightFoot",), 3),
    ("toes", ("RightToeBase",), 1),
)
"""Part, bones that share a turn, and how many numbers it has: 1 is a turn about the left axis."""
SIZE = 3 + sum(numbers for _, _, numbers in TURNS)


@dataclass(frozen=True)
class Column:
    """Numbers that turn one bone."""

    bone: int
    rows: slice
    """Of the unknowns."""
    share: float


def columns(skeleton: Skeleton) -> tuple[Column, ...]:
    """The numbers that turn bones of a body with the reference rig's bones."""
    out, at = [], 3
    for _, bones, numbers in TURNS:
        out += [Column(skeleton.names.index(bone), slice(at, at + numbers), 1 / len(bones)) for bone in bones]
        at += numbers
    return tuple(out)


def by_part(place: float, **parts: float) -> np.ndarray:
    """(31) a number for each unknown: that of its part, ``place`` for the root's."""
    return np.concatenate([np.full(3, place), *(np.full(numbers, parts[part]) for part, _, numbers in TURNS)])


@dataclass(frozen=True, eq=False)
class Posed:
    """A motion that was changed by some unknowns, and its slopes."""

    body: Masses
    values: np.ndarray
    """(F, 31) the unknowns."""
    turns: np.ndarray
    """(F, J, 3, 3)."""
    root: np.ndarray
    """(F, 3)."""
    turned: np.ndarray
    """(F, J, 3, 3) since the T-pose."""
    heads: np.ndarray
    """(F, J, 3)."""

    @cached_property
    def centres(self) -> np.ndarray:
        """(F, J, 3) centres of mass."""
        return self.heads + np.einsum("fjab,jb->fja", self.turned, self.body.centre)

    @cached_property
    def axes(self) -> list[np.ndarray]:
        """For each column the world axes (F, 3, n) about which its bone turns, times its share."""
        parents = self.body.skeleton.parents
        out = []
        for c in columns(self.body.skeleton):
            above = self.turned[:, int(parents[c.bone])] if parents[c.bone] >= 0 else np.eye(3)
            q = self.values[:, c.rows] * c.share
            if q.shape[1] == 1:
                out.append((above @ np.broadcast_to(np.eye(3)[:, :1], (len(q), 3, 1))) * c.share)
            else:
                out.append(above @ left_jacobian(q) * c.share)
        return out

    def point_slopes(self, points: np.ndarray, bone: int) -> np.ndarray:
        """(F, P, 3, 31) how points (F, P, 3) that move with a bone follow the unknowns."""
        skeleton = self.body.skeleton
        out = np.zeros((*points.shape, SIZE))
        out[..., PLACE] = np.eye(3)
        for c, axes in zip(columns(skeleton), self.axes, strict=True):
            if skeleton.subtree[c.bone, bone]:
                arm = points - self.heads[:, None, c.bone]
                out[..., c.rows] += np.cross(axes[:, None], arm[..., None], axis=2)
        return out

    def wrench_slopes(
        self, fps: float, about: np.ndarray, pushes: tuple[np.ndarray, np.ndarray] | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(F - 2, 6, 31) each: how :func:`.dynamics.root_wrench` of the inner frames follows the unknowns before, at and after.

        By sums over all that hangs below a joint, of mass x, x x^T, and those of two neighbouring frames. ``about`` (F, 3) stays.
        ``pushes`` are forces (F - 2, J, 3) [N] on the bones, with the sums of place times force (F - 2, J, 3, 3): less the moments of
        these, whose places move with the bones.
        """
        body, skeleton = self.body, self.body.skeleton
        rate = fps**2
        used = [c.bone for c in columns(skeleton)]
        share = skeleton.subtree[used]  # (C, J)

        def below(values: np.ndarray) -> np.ndarray:
            flat = values.reshape(*values.shape[:2], -1)
            return (share @ flat).reshape(len(flat), len(used), *values.shape[2:])

        x, turned = self.centres, self.turned
        first = body.mass[:, None] * x
        spread = turned @ body.spread
        here = first[..., :, None] * x[..., None, :] + spread @ np.swapaxes(turned, -1, -2)
        later = first[1:, ..., :, None] * x[:-1, ..., None, :] + spread[1:] @ np.swapaxes(turned[:-1], -1, -2)
        mass, s, n0, n1 = share @ body.mass, below(first), below(here), below(later)
        o, p = about[1:-1, None], self.heads[:, used]
        weight = mass[:, None] * GRAVITY
        force = rate * (s[2:] - 2 * s[1:-1] + s[:-2]) - weight
        # the sum of mass x a^T, a less gravity
        asked = rate * (np.swapaxes(n1[1:], -1, -2) - 2 * n0[1:-1] + n1[:-1]) - s[1:-1, ..., :, None] * GRAVITY
        pull = rate * (first[2:] - 2 * first[1:-1] + first[:-2]).sum(axis=1) - float(body.mass.sum()) * GRAVITY
        if pushes is not None:
            force = force - below(pushes[0])
            asked = asked - below(pushes[1])
            pull = pull - pushes[0].sum(axis=1)
        turning = asked - p[1:-1, ..., :, None] * force[..., None, :]
        own = _less_trace(turning)
        out = []
        frames = len(x) - 2
        pairs = (
            (np.swapaxes(n1[:-1], -1, -2), slice(0, frames), 1),
            (n0[1:-1], slice(1, -1), -2),
            (n1[1:], slice(2, None), 1),
        )
        total, whole = float(body.mass.sum()), first.sum(axis=1)
        for products, rows, factor in pairs:
            pivot, sums = p[rows], s[rows]
            second = products - sums[..., :, None] * o[..., None, :]
            second = second - pivot[..., :, None] * (s[1:-1] - mass[:, None] * o)[..., None, :]
            moment = -factor * rate * _less_trace(second)
            if factor < 0:
                moment = moment + own
            lever = factor * rate * (sums - mass[:, None] * pivot)
            slopes = np.zeros((frames, 6, SIZE))
            slopes[:, :3, PLACE] = factor * rate * total * np.eye(3)
            slopes[:, 3:, PLACE] = factor * rate * _cross(whole[1:-1] - total * about[1:-1])
            if factor < 0:
                slopes[:, 3:, PLACE] -= _cross(pull)
            for i, c in enumerate(columns(skeleton)):
                axes = self.axes[i][rows]
                slopes[:, :3, c.rows] += np.cross(axes, lever[:, i, :, None], axis=1)
                slopes[:, 3:, c.rows] += moment[:, i] @ axes
            out.append(slopes)
        return out[0], out[1], out[2]


def _cross(vector: np.ndarray) -> np.ndarray:
    """(..., 3, 3) matrices that take a vector to ``vector`` cross it."""
    out = np.zeros((*vector.shape, 3))
    x, y, z = np.moveaxis(vector, -1, 0)
    out[..., 0, 1], out[..., 0, 2], out[..., 1, 2] = -z, y, -x
    out[..., 1, 0], out[..., 2, 0], out[..., 2, 1] = z, -y, x
    return out


def _less_trace(matrices: np.ndarray) -> np.ndarray:
    """Matrices (..., 3, 3) less their trace on the diagonal."""
    trace = np.trace(matrices, axis1=-2, axis2=-1)
    return np.asarray(matrices - trace[..., None, None] * np.eye(3))


def left_jacobian(q: np.ndarray) -> np.ndarray:
    """(..., 3, 3) of SO(3): a small change d of a turn q turns what exp(q) turned by this times d (Sola et al. 2018, equation 145)."""
    angle2 = np.sum(q**2, axis=-1)[..., None, None]
    angle = np.sqrt(np.maximum(angle2, 1e-12))
    small = angle2 < 1e-6
    first = np.where(small, 0.5 - angle2 / 24, (1 - np.cos(angle)) / np.maximum(angle2, 1e-12))
    second = np.where(small, 1 / 6 - angle2 / 120, (angle - np.sin(angle)) / np.maximum(angle2 * angle, 1e-18))
    cross = _cross(q)
    return np.asarray(np.eye(3) + first * cross + second * (cross @ cross))


def pose(body: Masses, turns: np.ndarray, root: np.ndarray, values: np.ndarray) -> Posed:
    """The motion ``turns`` (F, J, 3, 3), ``root`` (F, 3) changed by unknowns (F, 31)."""
    out = turns.copy()
    for c in columns(body.skeleton):
        q = values[:, c.rows] * c.share
        if q.shape[1] == 1:
            q = np.concatenate([q, np.zeros((len(q), 2))], axis=1)
        out[:, c.bone] = rotations.matrix_from_axis_angle(q) @ turns[:, c.bone]
    place = root + values[:, PLACE]
    return Posed(body, values, out, place, *forward(body.skeleton, out, place))
