# SPDX-License-Identifier: GPL-3.0-or-later
"""What was learned on one human rig, on a human rig with other bones: one neck bone, four spine bones, no collar bones, no toes.

Bones are matched by their roles (:mod:`..rigs.roles`). The turn of a bone that the other rig lacks is made by the bones that it has:
trunk and neck are divided anew, so that their ends turn as before; a collar bone's turn goes to the upper arm, that of any other
bone of a limb to the next one down the limb, and that of a limb's last bone is left out. This only says which pose is likely: the
exact steps that follow know the other rig's real bones, so targets are met as exactly as on any rig.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ..core import rotations
from ..core import skeleton as skeletons
from ..core.reference_rig import reference
from ..core.skeleton import Skeleton
from ..core.tree import limb
from ..learning import layers
from ..rigs.roles import NECK, ROLE_NAMES, TRUNK
from . import density, network
from .network import Network
from .pose_density import PoseDensity

LEAST = 0.01  # [rad] standard deviation added to every axis, so that bones which share a turn may differ a little
_LIMBS = (("Shoulder", "Arm", "ForeArm", "Hand"), ("Thigh", "Shin", "Foot", "ToeBase"))


def shares(theirs: Sequence[str], ours: Sequence[str]) -> np.ndarray:
    """(K, J) which share of the turn of each bone with the roles ``theirs`` (J) each bone with the roles ``ours`` (K) makes.

    A column sums to 1, or to 0 where nothing can make that turn. Names that are no role have no share. ``ours`` may hold a role of
    the trunk or the neck more than once, for rigs that divide them into more bones.
    """
    out = np.zeros((len(ours), len(theirs)))
    place = {role: j for j, role in enumerate(theirs)}
    for chain, otherwise in ((TRUNK, ""), (NECK, "Head")):
        old = [place[role] for role in chain if role in place]
        new = [k for role in chain for k, own in enumerate(ours) if own == role]
        if not new and otherwise in ours:
            new = [ours.index(otherwise)]
        for k, row in zip(new, _divided(len(old), len(new)), strict=True):
            out[k, old] = row
    for role in ("Hips", "Head"):
        if role in place and role in ours:
            out[ours.index(role), place[role]] = 1
    for side in ("Left", "Right"):
        for parts in _LIMBS:
            for n, part in enumerate(parts):
                below = [side + other for other in parts[n:] if side + other in ours]
                if side + part in place and below:
                    out[ours.index(below[0]), place[side + part]] = 1
    return out


def _divided(old: int, new: int) -> np.ndarray:
    """(new, old) shares of a chain of ``old`` bones, as long as each other, that is divided into ``new`` bones as long as each other."""
    if not new or not old:
        return np.zeros((new, old))
    begin, end = np.arange(old) / old, (np.arange(old) + 1) / old
    low, high = (np.arange(new) / new)[:, None], ((np.arange(new) + 1) / new)[:, None]
    return np.asarray(np.clip(np.minimum(end, high) - np.maximum(begin, low), 0, None) * old)


def carried(share: np.ndarray, rot: np.ndarray) -> np.ndarray:
    """Core rotations (..., J, 3) [rad] on the bones that make ``share`` (K, J) of them: (..., K, 3) [rad]."""
    out = np.zeros((*rot.shape[:-2], len(share), 3))
    for k, row in enumerate(share):
        parts = np.flatnonzero(row).tolist()
        if len(parts) == 1:
            out[..., k, :] = row[parts[0]] * rot[..., parts[0], :]
        elif parts:
            turn = rotations.matrix_from_axis_angle(row[parts[0]] * rot[..., parts[0], :])
            for j in parts[1:]:
                turn = turn @ rotations.matrix_from_axis_angle(row[j] * rot[..., j, :])
            out[..., k, :] = rotations.axis_angle_from_matrix(turn)
    return out


def of_changes(share: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Covariance (3 J + 3, 3 J + 3) of pose changes (see :mod:`.density`) on the bones of ``share`` (K, J): (3 K + 3, 3 K + 3)."""
    count = len(share)
    turn = np.zeros((3 * count + 3, len(covariance)))
    turn[:-3, :-3] = np.kron(share, np.eye(3))
    turn[-3:, -3:] = np.eye(3)
    return np.asarray(turn @ covariance @ turn.T)


def people(skeleton: Skeleton, roles: Sequence[str] | None = None) -> np.ndarray | None:
    """The shipped covariance of people's pose changes for a person's ``skeleton``, whatever its bones and proportions; else None.

    ``roles`` (J) are those of its bones; None where they are named by their roles. Raises ValueError where the shipped file is damaged.
    """
    rig = reference()
    roles = skeleton.names if roles is None else roles
    if (
        skeleton.fingerprint == rig.fingerprint
        or len(roles) != skeleton.count
        or roles[0] != "Hips"
        or not is_human(roles)
    ):
        return density.shipped(skeleton)
    found = density.shipped(rig)
    return None if found is None else of_changes(shares(rig.names, roles), found)


def of_character(skeleton: Skeleton, own: PoseDensity | None, roles: Sequence[str] | None = None) -> np.ndarray | None:
    """As :func:`.density.of_character`, for a person with any bones; ``roles`` as in :func:`people`."""
    found = people(skeleton, roles)
    if found is None or own is None or own.changes is None:
        return found if own is None or own.changes is None else own.changes
    share = own.takes / (own.takes + density.HALF_OWN)
    return (1 - share) * found + share * own.changes


def is_human(names: Sequence[str]) -> bool:
    """Whether bones are named by their roles, as those of the reference rig are."""
    return set(names) <= set(ROLE_NAMES)


def onto(net: Network, rig: Skeleton, roles: Sequence[str]) -> Network:
    """``net``, learned on a rig whose bones are named by their roles, for ``rig`` whose bones play ``roles`` (J).

    Its skeleton has the bones of ``rig`` in the proportions of the body that was learned from. Raises ValueError, in words, for a rig
    without hips, and with effectors that ``net`` does not know.
    """
    theirs = net.skeleton
    known = [theirs.names[e] for e in theirs.effectors]
    asked = [roles[e] for e in rig.effectors]
    unknown = [role for role in asked if role not in known]
    if unknown or roles[0] != theirs.names[0] or len(rig.feet) != len(theirs.feet):
        raise ValueError(
            f"these weights move {', '.join(known)} of a person; this rig has {', '.join(unknown) or 'other bones'} instead: "
            "Extract Data and Train for this rig"
        )
    share = shares(theirs.names, roles)
    body = _body(theirs, rig, roles, share)
    rows = [known.index(role) for role in asked]
    kept, whose = _columns(net, rows)
    unlike = [
        k
        for k, (e, row) in enumerate(zip(rig.effectors, rows, strict=True))
        if _limb_roles(rig, roles, e) != _limb_roles(theirs, theirs.names, theirs.effectors[row])
    ]  # what is told of such a limb is something else than in training: the mean is taken instead
    old = network.stack(net)
    widths = network.sizes(body, net.layout, net.hidden)
    parameters = np.zeros(layers.parameter_count(widths), np.float32)
    new = layers.stack(parameters, widths)
    for n, ((weights, bias), (into, onto_bias)) in enumerate(zip(old.layers, new.layers, strict=True)):
        if n == 0:
            weights = np.where(np.isin(whose, unlike)[:, None], 0, weights[kept])
        if n == len(old.layers) - 1:
            weights, bias = (_outputs(array, share, theirs.count) for array in (weights, bias))
        into[...], onto_bias[...] = weights, bias
    return replace(
        net,
        skeleton=body,
        mean=net.mean[kept],
        deviation=net.deviation[kept],
        parameters=parameters,
        centres=net.centres[:, kept[kept < net.centres.shape[1]]],  # they hold the first inputs, targets and root
        density=None if net.density is None else _density(net.density, share),
    )


def _columns(net: Network, rows: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The input columns of a network that are those of some of its effectors, ``rows``, in their order; and whose effector each is.

    The latter is -1 for columns that are not about the body's limbs.
    """
    columns = net.layout.columns(net.skeleton)
    out, whose = [], []
    for name, found in columns.items():
        if name == "flags":  # they are columns of others
            continue
        parts = [found]
        if name in ("targets", "mask"):
            parts = [found.reshape(len(net.skeleton.effectors), -1)[list(rows)].ravel()]
        elif name == "body":
            parts = [block[list(rows)] for block in _limb_blocks(net, found)]
        for part in parts:
            out.append(part.ravel())
            whose.append(np.repeat(np.arange(len(rows)), part[0].size) if name == "body" else np.full(part.size, -1))
    return np.concatenate(out), np.concatenate(whose)


def _limb_blocks(net: Network, found: np.ndarray) -> list[np.ndarray]:
    """What the inputs ``found`` say of the body, as blocks (E, n): lengths of limbs, then places."""
    count, layout = len(net.skeleton.effectors), net.layout
    sizes = [2] * layout.lengths + [6] * layout.places
    ends = np.cumsum([0, *(count * size for size in sizes)])
    return [found[a:b].reshape(count, -1) for a, b in pairwise(ends.tolist())]


def _limb_roles(skeleton: Skeleton, roles: Sequence[str], effector: int) -> tuple[str, ...]:
    return tuple(roles[b] for b in limb(skeleton.parents, skeleton.rest_arm[:, :3, 3], effector))


def _outputs(array: np.ndarray, share: np.ndarray, count: int) -> np.ndarray:
    """The outputs (..., 3 J + rest) for ``count`` = J bones as those for the bones of ``share`` (K, J)."""
    turns = array[..., : 3 * count].reshape(*array.shape[:-1], count, 3)
    mapped = np.einsum("kj,...jc->...kc", share, turns).reshape(*array.shape[:-1], -1)
    return np.concatenate([mapped, array[..., 3 * count :]], axis=-1)


def _density(density: PoseDensity, share: np.ndarray) -> PoseDensity:
    turn = np.kron(share[1:, 1:], np.eye(3))
    least = np.eye(len(turn)) * LEAST**2
    return replace(
        density,
        mean=carried(share, density.mean),
        covariance=turn @ density.covariance @ turn.T + least,
        network_error=turn @ density.network_error @ turn.T + least,
        frames=carried(share, density.frames),
        frames_error=turn @ density.frames_error @ turn.T + least,
        changes=None if density.changes is None else of_changes(share, density.changes),
    )


def _body(theirs: Skeleton, rig: Skeleton, roles: Sequence[str], share: np.ndarray) -> Skeleton:
    """The bones of ``rig`` with the lengths of ``theirs``, in the T-pose, in core axes; limits are those of the turns that a bone makes."""
    heads = theirs.rest_core[:, :3, 3]
    own = rig.rest_core[:, :3, 3] * (theirs.leg_length / rig.leg_length)
    rest = np.tile(np.eye(4), (rig.count, 1, 1))
    axes = rig.basis.copy()
    limits = np.full((rig.count, 6), np.nan)
    for k, role in enumerate(roles):
        rest[k, :3, :3] = rig.basis[k]
        parent = int(rig.parents[k])
        rest[k, :3, 3] = own[k] if parent < 0 else rest[parent, :3, 3] + own[k] - own[parent]
        if role in theirs.names:
            j = theirs.names.index(role)
            rest[k, :3, 3] = heads[j]
            axes[k] = theirs.limit_axes[j]
            made = np.flatnonzero(share[k])
            if theirs.limits is not None and len(made):
                limits[k] = share[k, made] @ theirs.limits[made]
    names = [rig.names[e] for e in rig.effectors], [rig.names[f] for f in rig.feet]
    rested = np.zeros((rig.count, 3))
    body = skeletons.make(rig.names, rig.parents, rest, *names, t_pose=rested, limits=limits)
    return replace(body, limits_about=axes)
