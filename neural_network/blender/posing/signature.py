# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rig was read from, to notice that it changed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..host import actions
from ..host.rig import metres


class Signature(NamedTuple):
    """What a rig was read from, to compare: if it is the same, so is the rig."""

    names: tuple[str, ...]
    shape: bytes
    """Rest matrices and how bones are connected and inherit."""
    parents: tuple[str, ...]
    modes: tuple[str, ...]
    size: tuple[float, ...]
    """Scale of the object, its sign included, and metres in a unit of the scene."""
    others: tuple[tuple[Any, ...], ...]
    """The constraints and drivers of its bones, and what animates the armature's own properties."""


def signature(ob: Any) -> Signature:
    """What the rig of ``ob`` is read from."""
    bones, own = ob.pose.bones, ob.data.bones
    rest = np.empty(16 * len(own), np.float32)
    own.foreach_get("matrix_local", rest)
    flags = [(b.use_connect, b.use_inherit_rotation, b.use_local_location, b.inherit_scale) for b in own]
    others: list[tuple[Any, ...]] = [
        (pb.name, c.name, c.type, c.mute, c.influence == 0, getattr(c, "subtarget", ""), *_reach(c))
        for pb in bones
        for c in pb.constraints
    ]
    for data in (ob.animation_data, ob.data.animation_data):
        others += [(d.data_path, d.array_index, d.mute) for d in (data.drivers if data is not None else ())]
    others += [(c.data_path, c.mute) for c in actions.playing(ob.data.animation_data)]
    return Signature(
        tuple(pb.name for pb in bones),
        rest.tobytes() + repr(flags).encode(),
        tuple(pb.parent.name if pb.parent else "" for pb in bones),
        tuple(pb.rotation_mode for pb in bones),
        (*(round(n, 5) for n in ob.matrix_world.to_scale()), metres(ob)),
        tuple(others),
    )


def _reach(constraint: Any) -> tuple[Any, ...]:
    """How many bones above its own a constraint moves: chains of IK."""
    return getattr(constraint, "chain_count", 0), getattr(constraint, "use_tail", True)
