# SPDX-License-Identifier: GPL-3.0-or-later
"""The exact way to sample a take: Blender evaluates the character on every frame, and everything is restored afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

import bpy
import numpy as np

from ..host import actions as blender_actions
from ..host import runtime
from ..host.rig import Rig, metres
from .takes import AT_REST, Sampled, Take


def sample(
    scene: bpy.types.Scene, ob: bpy.types.Object, rig: Rig, take: Take, frames: np.ndarray, state: SceneState
) -> Generator[int, None, Sampled]:
    """Sample a take by letting Blender evaluate every frame; yields the number of frames done, and returns Sampled."""
    state.play(take)
    buffer = np.empty(len(rig.bones) * 16, np.float32)
    matrices = buffer.reshape(-1, 4, 4)
    columns = np.empty((len(frames), rig.skeleton.count, 4, 4), np.float32)  # Blender stores matrices by columns
    worlds = np.empty((len(frames), 4, 4))
    last = None
    for i, frame in enumerate(frames.tolist()):
        whole = int(frame // 1)
        scene.frame_set(whole, subframe=frame - whole)
        ob.pose.bones.foreach_get("matrix", buffer)
        np.take(matrices, rig.index, axis=0, out=columns[i], mode="clip")
        if ob.matrix_world != last:  # it seldom moves, and comparing is cheaper than converting
            last = ob.matrix_world.copy()
            world = np.array(last)
        worlds[i] = world
        yield i + 1
    poses = columns.transpose(0, 1, 3, 2)
    if not np.isfinite(poses).all():
        raise ValueError(f"{take.name}: Blender evaluates {ob.name} to poses that are not numbers")
    turned = runtime.orthonormal(worlds[:, None, :3, :3] @ runtime.orthonormal(poses[..., :3, :3].astype(np.float64)))
    rot = runtime.local_rotations(rig, turned)
    heads = np.einsum("fab,fb->fa", worlds[:, :3, :3], poses[:, 0, :3, 3]) + worlds[:, :3, 3]
    parents, rest = rig.skeleton.parents[1:], rig.skeleton.rest_arm
    places = np.einsum("fab,fjb->fja", worlds[:, :3, :3], poses[:, :, :3, 3]) * metres(ob)
    offsets = (rest[1:, :3, 3] - rest[parents, :3, 3])[:, None] @ rest[parents, :3, :3]  # in the parents' own axes
    shown = (places[:, 1:] - places[:, parents])[..., None, :] @ turned[:, parents]
    apart = np.concatenate([[0.0], np.linalg.norm(shown - offsets, axis=-1)[..., 0].max(axis=0)])
    return rot, (heads - state.location) * metres(ob), apart


class SceneState:
    """What evaluating changes in the file, to restore it; lives only as long as one extraction."""

    scene: bpy.types.Scene
    ob: bpy.types.Object
    rig: Rig
    location: np.ndarray
    frame: tuple[int, float]
    bare: bool
    pose: dict[str, np.ndarray]
    pose_position: Any

    def __init__(self, scene: bpy.types.Scene, ob: bpy.types.Object, rig: Rig, takes: list[Take]) -> None:
        data = ob.animation_data
        if ob.library is not None:
            raise ValueError(f"{ob.name} is linked from a library: make a library override first (Object > Relations)")
        if data is not None and data.use_tweak_mode:
            raise ValueError(
                f"an NLA strip of {ob.name} is being tweaked: leave tweak mode first (Tab in the NLA editor)"
            )
        if not ob.visible_get():
            raise ValueError(f"{ob.name} is hidden: Blender evaluates its constraints only while it is shown")
        self.scene = scene
        self.ob = ob
        self.rig = rig
        self.location = np.array(ob.matrix_world.translation, np.float64)
        self.frame = scene.frame_current, scene.frame_subframe
        self.bare = data is None
        self.animation: dict[str, Any] = {}
        self.action: tuple[bpy.types.Action | None, Any] = (None, None)
        if data is not None:
            self.animation = {
                name: getattr(data, name)
                for name in ("use_nla", "action_influence", "action_blend_type", "action_extrapolation")
            }
            self.action = data.action, data.action_slot if blender_actions.SLOTTED else None
        self.pose = runtime.snapshot(ob)
        self.pose_position = ob.data.pose_position
        self.others: dict[tuple[str, int], Any] = {}
        for take in takes:
            for curve in take.others:
                with contextlib.suppress(
                    ValueError, TypeError, IndexError
                ):  # a path that leads nowhere animates nothing
                    value = ob.path_resolve(curve.data_path)
                    self.others[curve.data_path, curve.array_index] = (
                        value[curve.array_index]
                        if hasattr(value, "__getitem__") and not isinstance(value, str)
                        else value
                    )
        self.modifiers: list[tuple[str, str]] = []
        self.copies: list[bpy.types.Action] = []

    def prepare(self) -> None:
        """Switch off the meshes on the rig: skinning them on every frame would take most of the time."""
        for other in self.scene.objects:
            modifiers: Any = other.modifiers
            for modifier in modifiers:
                if modifier.type == "ARMATURE" and modifier.object == self.ob and modifier.show_viewport:
                    modifier.show_viewport = False
                    self.modifiers.append((other.name, modifier.name))
        self.ob.data.pose_position = "POSE"

    def play(self, take: Take) -> None:
        """Let only this take animate the rig, from rest."""
        data = self.ob.animation_data or self.ob.animation_data_create()
        runtime.restore(
            self.ob, {name: np.tile(np.array(value), len(self.rig.bones)) for name, value in AT_REST.items()}
        )
        self._restore_others()
        if take.action is None:
            blender_actions.assign(data, None, None)
            data.use_nla = True
            return
        action, slot = take.action, take.slot
        if slot is not None and slot.target_id_type == "UNSPECIFIED":
            # Playing it would bind the slot to objects for good, so a copy is played.
            place = list(action.slots).index(slot)
            action = action.copy()
            self.copies.append(action)
            slot = action.slots[place]
        blender_actions.assign(data, action, slot)
        data.use_nla = False
        data.action_influence, data.action_blend_type, data.action_extrapolation = 1.0, "REPLACE", "HOLD"

    def restore(self) -> None:
        """Restore everything; what was deleted meanwhile stays deleted."""
        with contextlib.suppress(ReferenceError):
            data = self.ob.animation_data
            if data is not None:
                blender_actions.assign(data, *self.action)
                for name, value in self.animation.items():
                    setattr(data, name, value)
                if self.bare:
                    self.ob.animation_data_clear()
            self._restore_others()
            self.ob.data.pose_position = self.pose_position
        for name, modifier in self.modifiers:
            other = bpy.data.objects.get(name)
            if other is not None and modifier in other.modifiers:
                other.modifiers[modifier].show_viewport = True
        with contextlib.suppress(ReferenceError):
            self.scene.frame_set(self.frame[0], subframe=self.frame[1])
            runtime.restore(self.ob, self.pose)  # poses without keys are restored too
            for layer in self.scene.view_layers:
                layer.update()
        for action in self.copies:
            with contextlib.suppress(ReferenceError):
                bpy.data.actions.remove(action)

    def _restore_others(self) -> None:
        for (path, component), value in self.others.items():
            with contextlib.suppress(ValueError, TypeError, AttributeError, IndexError, KeyError):
                _set_at(self.ob, path, component, value)


def _set_at(ob: bpy.types.Object, path: str, component: int, value: Any) -> None:
    """Set the property that an F-Curve's path and index name."""
    if path.endswith("]"):  # a custom property: ...["name"]
        owner_path, _, name = path.rpartition("[")
        owner = ob.path_resolve(owner_path) if owner_path else ob
        owner[name[1:-2]] = value
        return
    owner_path, _, name = path.rpartition(".")
    owner = ob.path_resolve(owner_path) if owner_path else ob
    current = getattr(owner, name)
    if hasattr(current, "__setitem__"):
        current[component] = value
    else:
        setattr(owner, name, value)
