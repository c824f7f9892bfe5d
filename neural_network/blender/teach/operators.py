# SPDX-License-Identifier: GPL-3.0-or-later
"""The buttons of the panel Live: teach, listen, drive, record, send."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import bpy
from bpy.props import BoolProperty, IntProperty, StringProperty

from ..data import extract
from ..host import dependencies, jobs, rig
from ..host.buttons import Button, no_character
from ..host.jobs import Progress
from . import driving, lessons, listening, recording, sending, session
from .properties import settings
from .session import state

STATUS_TEXTS = {
    "new": "Not taught yet",
    "learning": "Learning",
    "solving": "Solving: good enough to drive",
    "lost": "Lost: this motion is unknown",
}


class NEURAL_IK_OT_teach(jobs.Pumped, Button, bpy.types.Operator):
    """Teach the legs of the character from actions, frame by frame; Esc cancels and changes nothing"""

    bl_idname = "neural_ik.teach"
    bl_label = "Teach from Action"
    bl_options = {"REGISTER"}
    panel = jobs.TEACH

    actions: StringProperty(
        name="Actions",
        description="Names of the actions, one per line; empty uses the panel's setting",
        options={"SKIP_SAVE"},
    )
    passes: IntProperty(
        name="Passes",
        description="Maximum number of passes; 0 uses the panel's setting",
        default=0,
        min=0,
        max=1000,
        options={"SKIP_SAVE"},
    )

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """There is no character, or an engine may be teaching it."""
        if state.server is not None:
            return "an engine may be teaching this character: press Stop Listening first"
        return no_character(context)

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, Any]:
        """Choose the actions; the returned generator teaches them."""
        ob: Any = rig.find(context)
        scene: Any = context.scene
        asked = settings(context)
        file: Any = bpy.data
        named = [line for line in self.actions.split("\n") if line]
        missing = [name for name in named if name not in file.actions]
        if missing:
            raise ValueError(f"no action called {', '.join(missing)}")
        moving: list[Any] = extract.moving_actions(ob)
        if named:
            chosen = [file.actions[name] for name in named]
        elif asked.which == "TICKED":
            chosen = [action for action in moving if action.neural_ik.use]
        else:
            chosen = _assigned(ob)
        if not chosen:
            more = "tick one" if asked.which == "TICKED" else "assign one, or choose All Ticked"
            raise ValueError(f"no action to teach {ob.name} from: {more}" if moving else f"no action moves {ob.name}")
        return lessons.teach(scene, ob, chosen, self.passes or asked.passes, asked.threshold, asked.go_on)

    def finish(self, context: bpy.types.Context, result: Any) -> str:
        """Keep the lesson."""
        fingerprint, lesson, first = result
        note = lessons.keep(fingerprint, lesson)
        if note:
            state.problem = f"{lesson.name}: {note}"
            self.report({"WARNING"}, state.problem)
        status = STATUS_TEXTS[lesson.status].lower()
        return f"{lesson.name}: {lessons.describe(lesson)}; {status} (first error {first:.3f} rad)"


def _assigned(ob: bpy.types.Object) -> list[Any]:
    """The actions that are assigned to a character or, where it has none, to what its bones follow."""
    movers = [ob] if ob.pose is None else list(dependencies.movers(ob, [pb.name for pb in ob.pose.bones]))
    assigned = [who.animation_data.action for who in movers if who.animation_data and who.animation_data.action]
    own = [action for action in assigned[:1] if ob.animation_data and ob.animation_data.action]
    return own or list(dict.fromkeys(assigned))


class _ActionButton(Button):
    """An operator whose work is one function, which may raise ValueError or OSError."""

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Call ``act`` and report what it returns or raises."""
        operator: Any = self
        try:
            message = self.act(context)
        except (ValueError, OSError) as error:
            operator.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        jobs.redraw()
        if message:
            operator.report({"INFO"}, message)
        return {"FINISHED"}

    def act(self, context: bpy.types.Context) -> str:
        """Do the work; returns a sentence to report, or an empty string."""
        raise NotImplementedError


class NEURAL_IK_OT_teach_forget(_ActionButton, bpy.types.Operator):
    """Delete what was taught for this character, in memory and on disk"""

    bl_idname = "neural_ik.teach_forget"
    bl_label = "Forget Lesson"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """The lesson is in use, or there is no character."""
        if state.server is not None or state.drive is not None:
            return "the lesson is in use: press Stop Listening and Stop Driving first"
        return no_character(context)

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> Any:
        """Ask for confirmation."""
        return context.window_manager.invoke_confirm(self, event)

    def act(self, context: bpy.types.Context) -> str:
        """Delete the lesson."""
        ob = rig.find(context)
        left = lessons.forget(ob)
        return f"The lesson of {ob.name} in memory is deleted; {left}" if left else f"Deleted the lesson of {ob.name}"


class NEURAL_IK_OT_listen(_ActionButton, bpy.types.Operator):
    """Let game engines connect to teach their rigs, request predictions, and see and solve this character"""

    bl_idname = "neural_ik.listen"
    bl_label = "Listen"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """It is listening already, or must not go online."""
        if state.server is not None:
            return "already listening"
        if not settings(context).local and not session.online():
            return "Blender is not allowed to go online: enable Allow Online Access in the preferences, or This Computer Only"
        return ""

    def act(self, context: bpy.types.Context) -> str:
        """Open the port."""
        asked = settings(context)
        try:
            ob = rig.find(context)
        except ValueError:
            ob = None
        port = listening.listen(ob, asked.port, not asked.local, state.token, asked.threshold)
        return f"Listening on port {port}" + (", this computer only" if asked.local else "")


class NEURAL_IK_OT_listen_stop(_ActionButton, bpy.types.Operator):
    """Disconnect every client and free the port; what they taught is saved"""

    bl_idname = "neural_ik.listen_stop"
    bl_label = "Stop Listening"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """It is not listening."""
        return "" if state.server is not None else "not listening"

    def act(self, context: bpy.types.Context) -> str:
        """Close the port."""
        before = state.problem
        listening.stop_listening()
        if state.problem != before:
            raise ValueError(state.problem)
        return "Stopped listening"


class NEURAL_IK_OT_new_token(_ActionButton, bpy.types.Operator):
    """Create a random token, and copy it to the clipboard for the client"""

    bl_idname = "neural_ik.new_token"
    bl_label = "New Token"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """Clients use the present token."""
        return "" if state.server is None else "clients use the present token: press Stop Listening first"

    def act(self, context: bpy.types.Context) -> str:
        """Create and copy it."""
        token = listening.new_token()
        if bpy.app.background:
            return "Created a new token"
        context.window_manager.clipboard = token
        return "Created a new token and copied it to the clipboard"


class NEURAL_IK_OT_lesson_undo(_ActionButton, bpy.types.Operator):
    """Restore the last good state from before the error jumped, and continue learning"""

    bl_idname = "neural_ik.lesson_undo"
    bl_label = "Restore Last Good"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """There is no lesson."""
        return "" if state.latest in state.lessons else "nothing was taught yet"

    def act(self, context: bpy.types.Context) -> str:
        """Restore it."""
        lesson = state.lessons[state.latest]
        if not lesson.trainee.undo():
            raise ValueError(f"{lesson.name} has no good state to restore: it was not solving for long enough")
        lesson.add_to_curve()
        return f"{lesson.name}: {lessons.describe(lesson)}"


class NEURAL_IK_OT_lesson_accept(_ActionButton, bpy.types.Operator):
    """Learn the new motion although the error has jumped"""

    bl_idname = "neural_ik.lesson_accept"
    bl_label = "Accept New Motion"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """Learning is not paused."""
        lesson = state.lessons.get(state.latest)
        return "" if lesson is not None and lesson.trainee.paused else "learning is not paused"

    def act(self, context: bpy.types.Context) -> str:
        """Resume learning."""
        state.lessons[state.latest].trainee.resume()
        return "Resumed learning"


class NEURAL_IK_OT_drive(_ActionButton, bpy.types.Operator):
    """Let the lesson move the legs, or a client the whole body; the session is one undo step"""

    bl_idname = "neural_ik.drive"
    bl_label = "Drive"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """It is driving already, or there is no character."""
        return "already driving" if state.drive is not None else no_character(context)

    def act(self, context: bpy.types.Context) -> str:
        """Start driving."""
        ob = rig.find(context)
        driven = driving.drive(context, ob, settings(context).source)
        if driven.source == "CLIENT":
            return f"{ob.name} shows what clients solve"
        waits = state.lessons[driven.lesson].status != "solving"
        return f"Move the two foot targets of {ob.name}" + (" once it has learned enough" if waits else "")


class NEURAL_IK_OT_drive_stop(_ActionButton, bpy.types.Operator):
    """Keep the present pose and remove the foot targets"""

    bl_idname = "neural_ik.drive_stop"
    bl_label = "Stop Driving"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """It is not driving."""
        return "" if state.drive is not None else "not driving"

    def act(self, context: bpy.types.Context) -> str:
        """Stop driving."""
        driving.stop_driving()
        return ""


class NEURAL_IK_OT_record(_ActionButton, bpy.types.Operator):
    """Record the poses of the character: the frames of the timeline while it plays, otherwise in real time"""

    bl_idname = "neural_ik.record"
    bl_label = "Record to Action"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """It is recording already, a recording waits to be written, or there is no character."""
        if state.unwritten is not None:
            return "a recording is not written yet: press Write Recording first"
        return "already recording" if state.record is not None else no_character(context)

    def act(self, context: bpy.types.Context) -> str:
        """Start recording."""
        ob = rig.find(context)
        recording.record(context, ob)
        return f"Recording {ob.name}"


class NEURAL_IK_OT_record_stop(_ActionButton, bpy.types.Operator):
    """Write the recorded poses to a new action"""

    bl_idname = "neural_ik.record_stop"
    bl_label = "Stop Recording"
    bl_options = {"REGISTER"}

    play: BoolProperty(
        name="Assign Action",
        description="Assign the new action to the character; the old one stays in the file",
        default=True,
    )

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """It is not recording."""
        return "" if state.record is not None or state.unwritten is not None else "not recording"

    def act(self, context: bpy.types.Context) -> str:
        """Write the keys."""
        name = recording.stop_recording(self.play)
        return f"Recorded to {name}" if name else "Nothing was recorded"


class NEURAL_IK_OT_send_pose(_ActionButton, bpy.types.Operator):
    """Send the pose of this character as VMC whenever it changes: to Unity, Unreal, Godot and avatar programs"""

    bl_idname = "neural_ik.send_pose"
    bl_label = "Send Pose (VMC)"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """It is sending already, or there is no character."""
        return "already sending" if state.send is not None else no_character(context)

    def act(self, context: bpy.types.Context) -> str:
        """Start sending."""
        ob, asked = rig.find(context), settings(context)
        sending.send(ob, asked.vmc_host, asked.vmc_port)
        return f"Sending the pose of {ob.name} to {asked.vmc_host}:{asked.vmc_port}"


class NEURAL_IK_OT_send_pose_stop(_ActionButton, bpy.types.Operator):
    """Stop sending the pose"""

    bl_idname = "neural_ik.send_pose_stop"
    bl_label = "Stop Sending"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """It is not sending."""
        return "" if state.send is not None else "not sending"

    def act(self, context: bpy.types.Context) -> str:
        """Stop sending."""
        sending.stop_sending()
        return ""


register, unregister = bpy.utils.register_classes_factory(
    (
        NEURAL_IK_OT_teach,
        NEURAL_IK_OT_teach_forget,
        NEURAL_IK_OT_listen,
        NEURAL_IK_OT_listen_stop,
        NEURAL_IK_OT_new_token,
        NEURAL_IK_OT_lesson_undo,
        NEURAL_IK_OT_lesson_accept,
        NEURAL_IK_OT_drive,
        NEURAL_IK_OT_drive_stop,
        NEURAL_IK_OT_record,
        NEURAL_IK_OT_record_stop,
        NEURAL_IK_OT_send_pose,
        NEURAL_IK_OT_send_pose_stop,
    )
)
