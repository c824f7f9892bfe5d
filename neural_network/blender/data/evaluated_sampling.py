# SPDX-License-Identifier: GPL-3.0-or-later
"""The exact way to sample a take: Blender evaluates the character on every frame, and everything is restored afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import Any

import bpy
import numpy as np

from ...core import forward_kinematics as fk
from ..host import actions as blender_actions
from ..host import runtime
from ..host.rig import Rig, metres
from .changes import Changes
from .takes import AT_REST, STRIP, TIMELINE, Movers, Sampled, Take, channel_paths, curves_of

CHUNK = 2048  # frames whose matrices are compared at once
THOROUGH = 64  # frames from one thorough look for changes to the next


def sample(state: SceneState, take: Take, frames: np.ndarray) -> Generator[int, None, Sampled]:
    """Sample a take by letting Blender evaluate every frame; yields the number of frames done, and returns Sampled.

    Raises ValueError if something changed meanwhile that the poses depend on.
    """
    ob, rig = state.ob, state.rig
    buffer = np.empty(len(rig.bones) * 16, np.float32)
    matrices = buffer.reshape(-1, 4, 4)
    columns = np.empty((len(frames), rig.skeleton.count, 4, 4), np.float32)  # Blender stores matrices by columns
    worlds = np.empty((len(frames), 4, 4))
    unit = metres(ob)
    last = None
    state.play(take)
    for i, frame in enumerate(frames.tolist()):
        if i:
            state.check(thorough=i % THOROUGH == 0)
        state.show(frame)
        ob.pose.bones.foreach_get("matrix", buffer)
        np.take(matrices, rig.index, axis=0, out=columns[i], mode="clip")
        if ob.matrix_world != last:  # it seldom moves, and comparing is cheaper than converting
            last = ob.matrix_world.copy()
            world = np.array(last)
        worlds[i] = world
        yield i + 1
    state.check(thorough=True)
    poses = columns.transpose(0, 1, 3, 2)
    if not np.isfinite(poses).all():
        raise ValueError(f"{take.name}: Blender evaluates {ob.name} to poses that are not numbers")
    axes = worlds[:, None, :3, :3] @ poses[..., :3, :3].astype(np.float64)
    turned = runtime.orthonormal(axes)
    rot = runtime.local_rotations(rig, turned)
    heads = np.einsum("fab,fb->fa", worlds[:, :3, :3], poses[:, 0, :3, 3]) + worlds[:, :3, 3]
    root = (heads - state.location) * unit
    lost = np.zeros(rig.skeleton.count)
    for start in range(0, len(rot), CHUNK):
        rows = slice(start, start + CHUNK)
        taken = fk.armature_matrices(rig.skeleton, rot[rows], root[rows])[..., :3, 3]
        places = np.einsum("fab,fjb->fja", worlds[rows, :3, :3], poses[rows, :, :3, 3])
        shown = (places + (worlds[rows, :3, 3] - state.location)[:, None]) * unit
        lost = np.maximum(lost, np.linalg.norm(shown - taken, axis=-1).max(axis=0))
    return Sampled(rot, root, lost, _sheared(axes, turned))


def _sheared(axes: np.ndarray, turned: np.ndarray) -> float:
    """The largest angle [rad] between the shown axes of bones (..., 3, 3), of any lengths, and those that were taken."""
    lengths = np.linalg.norm(axes, axis=-2)
    cosine = (axes * turned).sum(axis=-2) / np.maximum(lengths, 1e-20)
    return float(np.arccos(np.clip(cosine, -1, 1)).max()) if cosine.size else 0.0


def effect(state: SceneState, take: Take, frames: np.ndarray) -> int:
    """How many controlled bones move against their parents, or with the root, because a take plays; from a few frames.

    Leaves the take playing.
    """
    chosen = frames[np.unique(np.linspace(0, len(frames) - 1, 5).astype(int))]
    poses = []
    for playing in (None, take):
        state.play(playing)
        shown = []
        for frame in chosen.tolist():
            state.show(frame)
            rot, root = runtime.read_pose(state.ob, state.rig)
            place = np.array(state.ob.matrix_world)[:3] * metres(state.ob)
            shown.append(np.concatenate([rot, (root + place[:, 3])[None], place[:, :3]]))
        poses.append(np.array(shown))
    moved = np.abs(poses[1] - poses[0]).max(axis=(0, 2)) > MOVED
    count = state.rig.skeleton.count
    return int(moved[:count].sum()) or int(moved[count:].any())


MOVED = 1e-4  # [rad, m] a difference that is more than rounding


class _Stage:
    """What playing takes changes on one object, to restore it."""

    ob: bpy.types.Object
    bones: list[str]
    bare: bool
    """It had no animation data."""
    pose: dict[str, np.ndarray]
    pose_position: Any

    def __init__(self, ob: bpy.types.Object, takes: list[Take]) -> None:
        data = ob.animation_data
        if ob.library is not None:
            raise ValueError(f"{ob.name} is linked from a library: make a library override first (Object > Relations)")
        if data is not None and data.use_tweak_mode:
            raise ValueError(
                f"an NLA strip of {ob.name} is being tweaked: leave tweak mode first (Tab in the NLA editor)"
            )
        self.ob = ob
        self.bare = data is None
        self.animation: dict[str, Any] = {}
        self.action: tuple[bpy.types.Action | None, Any] = (None, None)
        self.playing: bpy.types.Action | None = None
        if data is not None:
            self.animation = {
                name: getattr(data, name)
                for name in ("use_nla", "action_influence", "action_blend_type", "action_extrapolation")
            }
            handle = blender_actions.handle_of(data.action_slot) if blender_actions.SLOTTED else 0
            self.action = data.action, handle
            self.playing = data.action
        self.bones = [pb.name for pb in ob.pose.bones] if ob.pose is not None else []
        self.pose = runtime.snapshot(ob) if ob.pose is not None else {}
        self.pose_position = ob.data.pose_position if ob.pose is not None else "POSE"
        self.others: dict[tuple[str, int], Any] = {}
        paths = channel_paths(self.bones)
        for take in takes:
            for curve in curves_of(take, ob, paths).others:
                with contextlib.suppress(
                    ValueError, TypeError, IndexError
                ):  # a path that leads nowhere animates nothing
                    value = ob.path_resolve(curve.data_path)
                    self.others[curve.data_path, curve.array_index] = (
                        value[curve.array_index]
                        if hasattr(value, "__getitem__") and not isinstance(value, str)
                        else value
                    )

    def rest(self) -> None:
        """Put all bones at rest, and everything else as it was."""
        if self.bones:
            channels = {name: np.tile(np.array(value), len(self.bones)) for name, value in AT_REST.items()}
            runtime.restore(self.ob, channels)
        self.restore_others()

    def play(self, action: bpy.types.Action | None, slot: Any, nla: bool) -> None:
        """Let only this action, or only the NLA tracks, animate the object."""
        if self.ob.animation_data is None and action is None:
            self.playing = None
            return
        data = self.ob.animation_data or self.ob.animation_data_create()
        blender_actions.assign(data, action, slot)
        data.use_nla = nla
        data.action_influence, data.action_blend_type, data.action_extrapolation = 1.0, "REPLACE", "HOLD"
        self.playing = action

    def restore_animation(self) -> None:
        """Assign what was assigned, unless the user has assigned something else meanwhile."""
        data = self.ob.animation_data
        if data is None:
            return
        if data.action is None or data.action == self.playing:
            action, handle = self.action
            slot = None
            try:
                with contextlib.suppress(ValueError):
                    slot = blender_actions.slot_of(action, handle) if action is not None and handle else None
                blender_actions.assign(data, action, slot)
            except ReferenceError:  # it was deleted meanwhile
                blender_actions.assign(data, None, None)
        for name, value in self.animation.items():
            setattr(data, name, value)

    def restore_pose(self) -> None:
        """Write the channels back, of the bones that still exist."""
        if not self.bones:
            return
        names = [pb.name for pb in self.ob.pose.bones]
        if names == self.bones:
            runtime.restore(self.ob, self.pose)
            return
        for row, name in enumerate(self.bones):
            pb = self.ob.pose.bones.get(name)
            for channel, size in runtime.CHANNELS.items() if pb is not None else ():
                setattr(pb, channel, self.pose[channel].reshape(-1, size)[row].tolist())

    def restore_others(self) -> None:
        """Set properties that takes animate back to their values."""
        for (path, component), value in self.others.items():
            with contextlib.suppress(ValueError, TypeError, AttributeError, IndexError, KeyError):
                _set_at(self.ob, path, component, value)


class SceneState:
    """What evaluating changes in the file, to restore it; lives only as long as one extraction."""

    scene: bpy.types.Scene
    ob: bpy.types.Object
    rig: Rig
    changes: Changes
    frame: tuple[int, float]

    def __init__(
        self,
        scene: bpy.types.Scene,
        ob: bpy.types.Object,
        rig: Rig,
        movers: Movers,
        takes: list[Take],
        changes: Changes,
    ) -> None:
        hidden = why_hidden(ob)
        if hidden:
            raise ValueError(
                f"{ob.name} is hidden ({hidden}): Blender evaluates its constraints only while it is shown"
            )
        if bpy.context.scene != scene:
            raise ValueError(f"{scene.name} is not the scene in the window: show it, because only that is evaluated")
        self.scene, self.ob, self.rig, self.changes = scene, ob, rig, changes
        self.location = np.array(ob.matrix_world.translation, np.float64)
        self.frame = scene.frame_current, scene.frame_subframe
        self.shown: float | None = None
        staged = [ob, *(who for who in movers if who != ob and _stageable(who, takes))]
        self.stages = [_Stage(who, takes) for who in staged]
        self.modifiers: list[tuple[str, str]] = []
        self.copies: list[bpy.types.Action] = []

    def prepare(self) -> None:
        """Switch off the meshes on the rigs: skinning them on every frame would take most of the time."""
        rigs = [stage.ob for stage in self.stages]
        for other in self.scene.objects:
            modifiers: Any = other.modifiers
            for modifier in modifiers:
                if modifier.type == "ARMATURE" and modifier.object in rigs and modifier.show_viewport:
                    modifier.show_viewport = False
                    self.modifiers.append((other.name, modifier.name))
        for stage in self.stages:
            if stage.pose_position != "POSE":
                stage.ob.data.pose_position = "POSE"

    def play(self, take: Take | None) -> None:
        """Let only this take animate the rig, from rest; None lets nothing animate it."""
        self.shown = None
        if take is not None and take.kind == TIMELINE:
            return  # as everything is
        for stage in self.stages:
            stage.rest()
            if take is None or take.action is None:
                stage.play(None, None, take is not None and take.kind == STRIP)
                continue
            plays = dict(take.plays)
            if stage.ob in plays:
                stage.play(*self._playable(take.action, take.slot(stage.ob)), False)
            else:
                stage.play(None, None, False)

    def show(self, frame: float) -> None:
        """Evaluate a frame."""
        whole = int(frame // 1)
        self.scene.frame_set(whole, subframe=frame - whole)
        self.shown = self.scene.frame_current_final

    def check(self, thorough: bool) -> None:
        """Raise ValueError, in words, if the user has changed something since the last frame."""
        changes = self.changes
        changes.quick()
        why = ""
        if self.shown is not None and self.scene.frame_current_final != self.shown:
            why = "another frame was shown"
        elif bpy.context.scene != self.scene:
            why = "another scene was shown"
        elif not self.ob.visible_get():
            why = f"{self.ob.name} was hidden"
        for stage in self.stages:
            data = stage.ob.animation_data
            if (data.action if data is not None else None) != stage.playing:
                why = f"another action was assigned to {stage.ob.name}"
            elif stage.bones and stage.ob.data.pose_position == "REST":
                why = f"{stage.ob.name} was put into Rest Position"
        if why:
            raise changes.stopped(why)
        if thorough:
            changes.check()

    def restore(self) -> None:
        """Restore everything; what was deleted meanwhile stays deleted."""
        steps: list[Callable[[], Any]] = []
        for stage in self.stages:
            steps += [stage.restore_animation, stage.restore_others, lambda stage=stage: self._restore_position(stage)]
        steps += [self._restore_modifiers, lambda: self.scene.frame_set(self.frame[0], subframe=self.frame[1])]
        for stage in self.stages:  # poses without keys are restored too
            steps += [stage.restore_pose, lambda stage=stage: self._restore_object(stage)]
        steps += [self._update, self._remove_copies]
        with contextlib.ExitStack() as stack:  # a step that fails must not keep the others from being done
            for step in reversed(steps):
                stack.callback(_unless_deleted, step)

    def _restore_position(self, stage: _Stage) -> None:
        if stage.bones and stage.ob.data.pose_position == "POSE":  # else the user has changed it meanwhile
            stage.ob.data.pose_position = stage.pose_position

    def _restore_object(self, stage: _Stage) -> None:
        if stage.bare and stage.ob.animation_data is not None and stage.ob.animation_data.action is None:
            stage.ob.animation_data_clear()

    def _restore_modifiers(self) -> None:
        for name, modifier in self.modifiers:
            other = bpy.data.objects.get(name)
            if other is not None and modifier in other.modifiers:
                other.modifiers[modifier].show_viewport = True

    def _update(self) -> None:
        for layer in self.scene.view_layers:
            layer.update()

    def _remove_copies(self) -> None:
        for action in self.copies:
            with contextlib.suppress(ReferenceError):
                bpy.data.actions.remove(action)

    def _playable(self, action: Any, slot: Any) -> tuple[bpy.types.Action, Any]:
        """An action and its slot, or copies: playing a slot that is for anything would bind it to objects for good."""
        if slot is None or slot.target_id_type != "UNSPECIFIED":
            return action, slot
        place = list(action.slots).index(slot)
        copy = action.copy()
        self.copies.append(copy)
        return copy, copy.slots[place]


def _unless_deleted(step: Callable[[], Any]) -> None:
    with contextlib.suppress(ReferenceError):
        step()


def _stageable(who: bpy.types.Object, takes: list[Take]) -> bool:
    """Whether takes play on an object, or it is an armature whose own action must not play meanwhile."""
    return any(who == other for take in takes for other, _ in take.plays) or (
        who.pose is not None and who.library is None and who.animation_data is not None
    )


def why_hidden(ob: bpy.types.Object) -> str:
    """Why an object is not shown in the current view layer, in words; empty if it is."""
    if ob.visible_get():
        return ""
    layer = bpy.context.view_layer
    if ob.name not in layer.objects:
        return f"it is not in the view layer {layer.name}, or its collection is excluded from it"
    if ob.hide_viewport:
        return "it is disabled in viewports"
    if ob.hide_get():
        return "press Alt H to show it"
    return "a collection that it is in is hidden or disabled in viewports"


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
