# SPDX-License-Identifier: GPL-3.0-or-later
"""Recording: every pose of a character into a new action."""

from __future__ import annotations

import time
from typing import Any

import bpy
import numpy as np

from ..data import extract
from ..host import actions as blender_actions
from ..host import evaluating, keyframes, runtime
from . import session
from .session import Recording, state


def record(context: bpy.types.Context, ob: bpy.types.Object, now: float | None = None) -> None:
    """Start recording: each frame of the timeline while it plays, otherwise in real time from the current frame.

    Raises ValueError for a second recording, one that waits to be written, and for an object without bones.
    """
    if state.record is not None:
        raise ValueError(f"{state.record.ob} is already being recorded: press Stop Recording first")
    if state.unwritten is not None:
        raise ValueError(f"a recording of {state.unwritten.ob} is not written yet: press Write Recording first")
    if ob.pose is None:
        raise ValueError(f"{ob.name} has no bones")
    scene: Any = context.scene
    fps = scene.render.fps / scene.render.fps_base
    moment = time.monotonic() if now is None else now
    bones = tuple((pb.name, pb.rotation_mode) for pb in ob.pose.bones)
    state.record = Recording(ob.name, scene.frame_current, moment, fps, scene.frame_current, bones)
    step(scene, moment)
    state.problem = ""
    session.start_timer()


def stop_recording(play: bool = True) -> str:
    """Write the recorded frames as keys of a new action, also where the character is gone; assign it to it with ``play``.

    Returns the action's name; empty where nothing was recorded. If writing fails, the recording is kept in
    ``state.unwritten``.
    """
    recorded, state.record = state.record or state.unwritten, None
    state.unwritten = recorded
    if recorded is None or not recorded.frames:
        state.unwritten = None
        session.stop_timer_if_idle()
        return ""
    action, slot = _write(recorded)
    state.unwritten = None
    found: Any = bpy.data.objects.get(recorded.ob)
    if play and found is not None and found.pose is not None and found.library is None:
        animated = found.animation_data or found.animation_data_create()
        if animated.action is not None:
            animated.action.use_fake_user = True  # it may have no other user
        blender_actions.assign(animated, action, slot)
    session.end_session("Neural IK Record")
    return str(action.name)


def put_aside() -> None:
    """End recording without writing; :func:`stop_recording` writes it later, for example into the next file."""
    if state.record is not None and state.record.frames:
        state.unwritten = state.record
    state.record = None


def _write(recorded: Recording) -> tuple[bpy.types.Action, Any]:
    """The recorded frames as a new action, which no failure leaves half written, and its slot."""
    frames = np.array(sorted(recorded.frames))
    channels = {}
    for i, (name, mode) in enumerate(recorded.bones):
        for channel in (runtime.rotation_channel(mode), "location"):
            size = runtime.CHANNELS[channel]
            values = np.array([recorded.frames[f][channel].reshape(-1, size)[i] for f in frames.tolist()])
            if channel != "location" or np.any(values):
                channels[name, channel] = values
    action, slot = blender_actions.new(f"{recorded.ob} Live", recorded.ob)
    try:
        action.use_fake_user = True
        action[extract.FPS_KEY] = float(recorded.fps)
        keyframes.write_bones(action, slot, frames, channels)
    except BaseException:
        bpy.data.actions.remove(action)
        raise
    return action, slot


def step(scene: bpy.types.Scene, now: float, frame: int | None = None) -> None:
    """Record the pose at ``frame``, by default at the frame for the time since the start.

    Raises ValueError where recording has to stop.
    """
    recorded = state.record
    assert recorded is not None
    if evaluating.under_way():  # the pose is not the character's own
        return
    ob = session.find_object(recorded.ob)
    if ob.mode == "EDIT" or ob.pose is None:
        return
    if frame is None:
        if scene.frame_current != recorded.last:  # the timeline is moving: its frames are recorded instead
            return
        frame = recorded.start + int((now - recorded.moment) * recorded.fps)
    else:
        recorded.last, recorded.start, recorded.moment = frame, frame, now
    if tuple((pb.name, pb.rotation_mode) for pb in ob.pose.bones) != recorded.bones:
        raise ValueError(f"the bones of {ob.name} or their rotation modes have changed: recording has stopped")
    recorded.frames[frame] = runtime.snapshot(ob)
