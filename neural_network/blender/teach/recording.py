# SPDX-License-Identifier: GPL-3.0-or-later
"""Recording: every pose of a character into a new action."""

from __future__ import annotations

import time
from typing import Any

import bpy
import numpy as np

from ..data import extract
from ..host import actions as blender_actions
from ..host import keyframes, runtime
from . import session
from .session import Recording, state


def record(context: bpy.types.Context, ob: bpy.types.Object, now: float | None = None) -> None:
    """Start recording: each frame of the timeline while it plays, otherwise in real time from the current frame.

    Raises ValueError for a second recording, and for an object without bones.
    """
    if state.record is not None:
        raise ValueError(f"{state.record.ob} is already being recorded: press Stop Recording first")
    if ob.pose is None:
        raise ValueError(f"{ob.name} has no bones")
    scene: Any = context.scene
    fps = scene.render.fps / scene.render.fps_base
    moment = time.monotonic() if now is None else now
    state.record = Recording(ob.name, scene.frame_current, moment, fps, scene.frame_current)
    step(scene, moment)
    state.problem = ""
    session.start_timer()


def stop_recording(play: bool = True) -> str:
    """Write the recorded frames as keys of a new action, and assign it with ``play``.

    Returns the action's name; empty where nothing was recorded. Raises ValueError where the character is gone.
    """
    recorded, state.record = state.record, None
    if recorded is None or not recorded.frames:
        session.stop_timer_if_idle()
        return ""
    ob: Any = session.find_object(recorded.ob)
    frames = np.array(sorted(recorded.frames))
    action, slot = blender_actions.new(f"{ob.name} Live", ob.name)
    action.use_fake_user = True
    action[extract.FPS_KEY] = float(recorded.fps)
    channels = {}
    for i, pb in enumerate(ob.pose.bones):
        for channel in (runtime.rotation_channel(pb.rotation_mode), "location"):
            size = runtime.CHANNELS[channel]
            values = np.array([recorded.frames[f][channel].reshape(-1, size)[i] for f in frames.tolist()])
            if channel != "location" or np.any(values):
                channels[pb.name, channel] = values
    keyframes.write_bones(action, slot, frames, channels)
    if play:
        animated = ob.animation_data or ob.animation_data_create()
        if animated.action is not None:
            animated.action.use_fake_user = True  # it may have no other user
        blender_actions.assign(animated, action, slot)
    session.end_session("Neural IK Record")
    return str(action.name)


def step(scene: bpy.types.Scene, now: float, frame: int | None = None) -> None:
    """Record the pose at ``frame``, by default at the frame for the time since the start.

    Raises ValueError where recording has to stop.
    """
    recorded = state.record
    assert recorded is not None
    ob = session.find_object(recorded.ob)
    if ob.mode == "EDIT" or ob.pose is None:
        return
    if frame is None:
        if scene.frame_current != recorded.last:  # the timeline is moving: its frames are recorded instead
            return
        frame = recorded.start + int((now - recorded.moment) * recorded.fps)
    else:
        recorded.last, recorded.start, recorded.moment = frame, frame, now
    found = runtime.snapshot(ob)
    first = next(iter(recorded.frames.values()), found)
    if len(found["scale"]) != len(first["scale"]):
        raise ValueError(f"the bones of {ob.name} have changed: recording has stopped")
    recorded.frames[frame] = found
