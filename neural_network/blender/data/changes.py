# SPDX-License-Identifier: GPL-3.0-or-later
"""Notices that the user changed what is being extracted: an extraction then stops in words, and takes no wrong poses."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np

from ..host import evaluating
from .takes import Movers, Take, curves_of

Signature = dict[str, tuple[Any, ...]]


class Changes:
    """What the poses of a character depend on, when an extraction began, to compare it with later."""

    def __init__(
        self,
        scene: bpy.types.Scene,
        ob: bpy.types.Object,
        movers: Movers,
        takes: list[Take],
        evaluation: evaluating.Evaluation,
    ) -> None:
        self.scene = scene
        self.evaluation = evaluation
        self.name = ob.name
        self.objects = {who.name: who for who in movers}
        self.actions = {take.action.name: take.action for take in takes if take.action is not None}
        self.animates = any(
            curve.data_path.endswith((".rotation_mode", ".mute", ".enabled"))
            for take in takes
            for who in movers
            for curve in curves_of(take, who, {}).others
        )
        for who in movers:
            if who.mode == "EDIT":
                raise ValueError(f"{who.name} is in Edit Mode: leave it first (Tab)")
        self.before = self._signature()

    def check(self) -> None:
        """Raise ValueError, in words, if something has changed."""
        self.quick()
        try:
            now = self._signature()
        except ReferenceError:
            raise self.stopped(self._deleted()) from None
        for what, value in now.items():
            if value != self.before.get(what):
                raise self.stopped(f"{what} changed")

    def quick(self) -> None:
        """As :meth:`check`, but only for what can be seen in microseconds."""
        if self.evaluation.ended:  # then no reference may be valid
            raise self.stopped(self.evaluation.ended)
        try:
            for who in self.objects.values():
                if who.mode == "EDIT":
                    raise self.stopped(f"{who.name} was put into Edit Mode")
            for thing in (self.scene, *self.actions.values()):
                _ = thing.name
        except ReferenceError:
            raise self.stopped(self._deleted()) from None

    def stopped(self, why: str) -> ValueError:
        """The error that ends the extraction."""
        return ValueError(f"stopped, because {why} meanwhile; no poses were taken from {self.name}")

    def _deleted(self) -> str:
        """Which of the objects and actions is gone, in words."""
        for name, thing in (*self.objects.items(), *self.actions.items()):
            try:
                _ = thing.name
            except ReferenceError:
                return f"{name} was deleted"
        return "the scene was deleted"

    def _signature(self) -> Signature:
        out: Signature = {}
        for name, who in self.objects.items():
            out[f"the parent of {name}"] = (who.parent.name if who.parent else "", who.parent_type, who.parent_bone)
            out[f"the constraints of {name}"] = self._constraints(who)
            data = who.animation_data
            out[f"the drivers of {name}"] = (len(data.drivers) if data is not None else 0,)
            if who.pose is None:
                continue
            bones: Any = who.data.bones
            rest = np.empty(16 * len(bones), np.float32)
            bones.foreach_get("matrix_local", rest)
            out[f"the bones of {name}"] = (tuple(pb.name for pb in who.pose.bones), rest.tobytes())
            if not self.animates:
                out[f"the rotation modes of {name}"] = tuple(pb.rotation_mode for pb in who.pose.bones)
            out[f"the constraints of bones of {name}"] = tuple(
                (pb.name, self._constraints(pb)) for pb in who.pose.bones if len(pb.constraints)
            )
        return out

    def _constraints(self, holder: Any) -> tuple[Any, ...]:
        """The constraints of an object or a bone; not what actions may animate."""
        return tuple(
            (c.type, c.name, c.mute and not self.animates, getattr(c, "target", None), getattr(c, "subtarget", ""))
            for c in holder.constraints
        )
