# SPDX-License-Identifier: GPL-3.0-or-later
"""The panel "Live" and its buttons: teach, listen, drive, record."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import bpy
from bpy.props import BoolProperty, EnumProperty, FloatProperty, IntProperty, PointerProperty, StringProperty

from ...live.server import PORT
from ...live.trainee import Settings
from ...live.vmc import PORT_OUT
from ..data import extract
from ..host import curve, jobs, rig
from ..host.buttons import Button, no_character
from ..host.jobs import Progress
from ..host.panels import TAB, paragraph
from . import teach
from .teach import state

LAMPS = {
    "new": "RADIOBUT_OFF",
    "learning": "COLORSET_09_VEC",  # yellow
    "solving": "COLORSET_03_VEC",  # green
    "lost": "COLORSET_01_VEC",  # red
}
WORDS = {
    "new": "Nothing learned yet",
    "learning": "Learning",
    "solving": "Solving: good enough to drive",
    "lost": "Lost: this motion is not known",
}


def _get_token(self: bpy.types.PropertyGroup) -> str:
    return state.token


def _set_token(self: bpy.types.PropertyGroup, value: str) -> None:
    state.token = value


class NEURAL_IK_Teach(bpy.types.PropertyGroup):
    """What the panel asks for. It belongs to the window, not to a file: no file opens a port wider than its user did."""

    which: EnumProperty(
        name="Actions",
        items=[
            ("ACTIVE", "Active", "The action that plays on the character now"),
            ("TICKED", "All Ticked", "Every action that is ticked in the list of actions, one after the other"),
        ],
        options={"SKIP_SAVE"},
    )
    passes: IntProperty(
        name="Passes",
        description="How often the actions are played at most; it ends earlier once the error is small enough",
        default=6,
        min=1,
        max=1000,
        options={"SKIP_SAVE"},
    )
    threshold: FloatProperty(
        name="Good Enough",
        description="Error below which it may drive: of legs an angle, of bones that engines teach perhaps metres",
        default=Settings().threshold,
        min=1e-5,
        max=1,
        precision=4,
        options={"SKIP_SAVE"},
    )
    go_on: BoolProperty(
        name="Go On",
        description="Begin with what was taught before; else anew",
        default=True,
        options={"SKIP_SAVE"},
    )
    port: IntProperty(
        name="Port", description="Where engines connect", default=PORT, min=1, max=65535, options={"SKIP_SAVE"}
    )
    local: BoolProperty(
        name="This Computer Only",
        description="Programs on other computers cannot connect. Off: they can, with the token, where Blender may go online",
        default=True,
        options={"SKIP_SAVE"},
    )
    token: StringProperty(
        name="Token",
        description="What clients must know. Kept in no file. Empty: none, which is possible on this computer only",
        subtype="PASSWORD",
        get=_get_token,
        set=_set_token,
        options={"SKIP_SAVE"},
    )
    vmc_host: StringProperty(
        name="To",
        description="Who is sent the pose: this computer, or the address of another where Blender may go online",
        default="127.0.0.1",
        options={"SKIP_SAVE"},
    )
    vmc_port: IntProperty(
        name="Port",
        description="Where programs that show VMC poses listen, by custom",
        default=PORT_OUT,
        min=1,
        max=65535,
        options={"SKIP_SAVE"},
    )
    source: EnumProperty(
        name="Drive By",
        items=[
            ("FEET", "Feet", "Two targets here move the feet; the legs are what was taught"),
            ("CLIENT", "Client", "A connected engine moves the whole body, solved by the weights in memory"),
        ],
        options={"SKIP_SAVE"},
    )


def settings(context: bpy.types.Context) -> Any:
    """What the panel asks for."""
    manager: Any = context.window_manager
    return manager.neural_ik_teach


class NEURAL_IK_OT_teach(jobs.Pumped, Button, bpy.types.Operator):
    """Play actions to the learner, frame by frame, as an engine would: no network, and Esc leaves everything as it was"""

    bl_idname = "neural_ik.teach"
    bl_label = "Teach from Action"
    bl_options = {"REGISTER"}

    actions: StringProperty(
        name="Actions", description="Names of the actions, one a line; empty: as the panel says", options={"SKIP_SAVE"}
    )
    passes: IntProperty(
        name="Passes", description="0: as the panel says", default=0, min=0, max=1000, options={"SKIP_SAVE"}
    )

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """No character, or somebody else may be teaching it."""
        if state.server is not None:
            return "engines may be teaching: Stop Listening first"
        return no_character(context)

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, Any]:
        """Choose the actions; the rest is later."""
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
            chosen = [ob.animation_data.action] if ob.animation_data and ob.animation_data.action else []
        if not chosen:
            more = "tick one" if asked.which == "TICKED" else "assign one, or choose All Ticked"
            raise ValueError(f"no action to teach {ob.name} from: {more}" if moving else f"no action moves {ob.name}")
        return teach.teach(scene, ob, chosen, self.passes or asked.passes, asked.threshold, asked.go_on)

    def finish(self, context: bpy.types.Context, result: Any) -> str:
        """Take it up."""
        fingerprint, lesson, first = result
        teach.keep(fingerprint, lesson)
        return f"{lesson.name}: {teach.describe(lesson)}; {WORDS[lesson.lamp].lower()} ({first:.3f} rad at first sight)"


class _Simple(Button):
    """A button whose work is a function that may refuse in words."""

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Do it, and say what came of it."""
        operator: Any = self
        try:
            said = self.act(context)
        except (ValueError, OSError) as error:
            operator.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        jobs.redraw()
        if said:
            operator.report({"INFO"}, said)
        return {"FINISHED"}

    def act(self, context: bpy.types.Context) -> str:
        """The work; returns a sentence, or nothing."""
        raise NotImplementedError


class NEURAL_IK_OT_teach_forget(_Simple, bpy.types.Operator):
    """Forget what was taught for this character, in memory and on disk"""

    bl_idname = "neural_ik.teach_forget"
    bl_label = "Forget Lesson"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """It is in use."""
        if state.server is not None or state.drive is not None:
            return "it is in use: Stop Listening and Stop Driving first"
        return no_character(context)

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> Any:
        """Ask first."""
        return context.window_manager.invoke_confirm(self, event)

    def act(self, context: bpy.types.Context) -> str:
        """Forget."""
        ob = rig.find(context)
        teach.forget(ob)
        return f"What was taught for {ob.name} is forgotten"


class NEURAL_IK_OT_listen(_Simple, bpy.types.Operator):
    """Let game engines connect: they teach their rigs, ask for predictions, and see and solve this character"""

    bl_idname = "neural_ik.listen"
    bl_label = "Listen"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """It is on, or may not be."""
        if state.server is not None:
            return "it is on: Stop Listening ends it"
        if not settings(context).local and not teach.online():
            return "Blender may not go online: tick Allow Online Access in the preferences, or This Computer Only"
        return ""

    def act(self, context: bpy.types.Context) -> str:
        """Open the port."""
        asked = settings(context)
        try:
            ob = rig.find(context)
        except ValueError:
            ob = None
        port = teach.listen(ob, asked.port, not asked.local, state.token, asked.threshold)
        return f"Listening on port {port}" + (", this computer only" if asked.local else "")


class NEURAL_IK_OT_listen_stop(_Simple, bpy.types.Operator):
    """Send every client away and free the port; what they taught is saved"""

    bl_idname = "neural_ik.listen_stop"
    bl_label = "Stop Listening"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """It is off."""
        return "" if state.server is not None else "it is off"

    def act(self, context: bpy.types.Context) -> str:
        """Close."""
        teach.hang_up()
        if state.problem:
            raise ValueError(state.problem)
        return "Stopped listening"


class NEURAL_IK_OT_new_token(_Simple, bpy.types.Operator):
    """Draw a token that cannot be guessed, and copy it for the client"""

    bl_idname = "neural_ik.new_token"
    bl_label = "New Token"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """Clients would not know it."""
        return "" if state.server is None else "clients use the present one: Stop Listening first"

    def act(self, context: bpy.types.Context) -> str:
        """Draw."""
        token = teach.new_token()
        if bpy.app.background:
            return "A new token is set"
        context.window_manager.clipboard = token
        return "A new token is set, and copied"


class NEURAL_IK_OT_lesson_undo(_Simple, bpy.types.Operator):
    """Go back to what was known before the error jumped, and learn on"""

    bl_idname = "neural_ik.lesson_undo"
    bl_label = "Back to Good"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """Nothing is learned now."""
        return "" if state.latest in state.lessons else "nothing was taught yet"

    def act(self, context: bpy.types.Context) -> str:
        """Go back."""
        lesson = state.lessons[state.latest]
        if not lesson.trainee.undo():
            raise ValueError(f"{lesson.name} was never solving for long enough to go back to")
        lesson.watch()
        return f"{lesson.name}: {teach.describe(lesson)}"


class NEURAL_IK_OT_lesson_accept(_Simple, bpy.types.Operator):
    """Learn the new motion too, although the error has jumped"""

    bl_idname = "neural_ik.lesson_accept"
    bl_label = "Learn This Too"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """Learning is not paused."""
        lesson = state.lessons.get(state.latest)
        return "" if lesson is not None and lesson.trainee.paused else "learning is not paused"

    def act(self, context: bpy.types.Context) -> str:
        """Learn on."""
        state.lessons[state.latest].trainee.resume()
        return "Learning goes on"


class NEURAL_IK_OT_drive(_Simple, bpy.types.Operator):
    """Let what was taught move the legs, or a client the whole body; all of it is one undo step"""

    bl_idname = "neural_ik.drive"
    bl_label = "Drive"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """It is on, or there is no character."""
        return "it is on: Stop Driving ends it" if state.drive is not None else no_character(context)

    def act(self, context: bpy.types.Context) -> str:
        """Start."""
        ob = rig.find(context)
        driven = teach.drive(context, ob, settings(context).source)
        if driven.source == "CLIENT":
            return f"{ob.name} shows what clients solve"
        waits = state.lessons[driven.lesson].lamp != "solving"
        return f"Move the two foot targets of {ob.name}" + (", once it has learned enough" if waits else "")


class NEURAL_IK_OT_drive_stop(_Simple, bpy.types.Operator):
    """Leave the character as it is now, and take the targets away"""

    bl_idname = "neural_ik.drive_stop"
    bl_label = "Stop Driving"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """It is off."""
        return "" if state.drive is not None else "it is off"

    def act(self, context: bpy.types.Context) -> str:
        """Stop."""
        teach.stop_driving()
        return ""


class NEURAL_IK_OT_record(_Simple, bpy.types.Operator):
    """Note every pose of the character from now on: while the timeline plays at its frames, else as time goes by"""

    bl_idname = "neural_ik.record"
    bl_label = "Record to Action"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """It is on, or there is no character."""
        return "it is on: Stop Recording ends it" if state.record is not None else no_character(context)

    def act(self, context: bpy.types.Context) -> str:
        """Start."""
        ob = rig.find(context)
        teach.record(context, ob)
        return f"Recording {ob.name}"


class NEURAL_IK_OT_record_stop(_Simple, bpy.types.Operator):
    """Put what was noted into a new action"""

    bl_idname = "neural_ik.record_stop"
    bl_label = "Stop Recording"
    bl_options = {"REGISTER"}

    play: BoolProperty(
        name="Play It",
        description="Assign the new action to the character; the old one stays in the file",
        default=True,
    )

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """It is off."""
        return "" if state.record is not None else "it is off"

    def act(self, context: bpy.types.Context) -> str:
        """Write the keys."""
        name = teach.stop_recording(self.play)
        return f"Recorded into {name}" if name else "Nothing was recorded"


class NEURAL_IK_OT_send_pose(_Simple, bpy.types.Operator):
    """Send the pose that this character shows as VMC, whenever it changes: to Unity, Unreal, Godot and avatar programs"""

    bl_idname = "neural_ik.send_pose"
    bl_label = "Send Pose (VMC)"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """It is on, or there is no character."""
        return "it is on: Stop Sending ends it" if state.send is not None else no_character(context)

    def act(self, context: bpy.types.Context) -> str:
        """Start."""
        ob, asked = rig.find(context), settings(context)
        teach.send(ob, asked.vmc_host, asked.vmc_port)
        return f"Sending the pose of {ob.name} to {asked.vmc_host}:{asked.vmc_port}"


class NEURAL_IK_OT_send_pose_stop(_Simple, bpy.types.Operator):
    """Send the pose no more"""

    bl_idname = "neural_ik.send_pose_stop"
    bl_label = "Stop Sending"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """It is off."""
        return "" if state.send is not None else "it is off"

    def act(self, context: bpy.types.Context) -> str:
        """Stop."""
        teach.stop_sending()
        return ""


class NEURAL_IK_PT_teach(bpy.types.Panel):
    """Teach, listen, drive, record."""

    bl_label = "Live"
    bl_space_type = "VIEW_3D"
    bl_region_type = "UI"
    bl_category = TAB
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context: bpy.types.Context) -> None:
        """From top to bottom as it is used."""
        layout, asked = self.layout, settings(context)
        column = layout.column(align=True)
        column.operator("neural_ik.teach", icon="OUTLINER_OB_ARMATURE")
        row = column.row(align=True)
        row.prop(asked, "which", expand=True)
        row = column.row(align=True)
        row.prop(asked, "passes")
        row.prop(asked, "threshold")
        row = column.row(align=True)
        row.prop(asked, "go_on")
        row.operator("neural_ik.teach_forget", text="Forget", icon="TRASH")
        _lesson(layout, context)
        _listening(layout, asked)
        _sending(layout, asked)
        column = layout.column(align=True)
        if state.drive is None:
            column.row(align=True).prop(asked, "source", expand=True)
            column.operator("neural_ik.drive", icon="PLAY")
        else:
            column.operator("neural_ik.drive_stop", icon="PAUSE")
            waits = "Waiting for a client" if state.drive.source == "CLIENT" else "Waiting until it knows the motion"
            column.label(text=f"{state.drive.ob}: driving" if state.drive.driving else waits)
        if state.record is None:
            layout.operator("neural_ik.record", icon="REC")
        else:
            layout.operator("neural_ik.record_stop", icon="SNAP_FACE")
            layout.label(text=f"{len(state.record.frames)} frames")
        if state.problem:
            paragraph(layout.box().column(align=True), state.problem, context, "ERROR")


def _lesson(layout: Any, context: bpy.types.Context) -> None:
    """Lamp, figures and curve of what was taught last."""
    lesson = state.lessons.get(state.latest)
    if lesson is None:
        return
    box = layout.box().column(align=True)
    lamp = lesson.lamp
    box.label(text=WORDS[lamp], icon=LAMPS[lamp])
    paragraph(box, f"{lesson.name}: {teach.describe(lesson)}", context)
    last = lesson.curve[-1][0] if lesson.curve else 0.0
    points = [(frames / last, error) for frames, error in lesson.curve] if last else []
    drawn = curve.icon(points, "live")
    if drawn:
        box.template_icon(icon_value=drawn, scale=5)
    if lesson.trainee.poisoned:
        row = box.row(align=True)
        row.operator("neural_ik.lesson_undo", icon="LOOP_BACK")
        row.operator("neural_ik.lesson_accept", icon="CHECKMARK")


def _listening(layout: Any, asked: Any) -> None:
    """The port, and who is there."""
    column = layout.column(align=True)
    if state.server is None:
        column.operator("neural_ik.listen", icon="LINKED")
        column.prop(asked, "port")
        column.prop(asked, "local")
        row = column.row(align=True)
        row.prop(asked, "token")
        row.operator("neural_ik.new_token", text="", icon="FILE_REFRESH")
        return
    server = state.server
    column.operator("neural_ik.listen_stop", icon="UNLINKED")
    where = "any computer" if state.everywhere else "this computer"
    count = server.clients()
    column.label(text=f"Port {server.port}, {where}, {count} client{'' if count == 1 else 's'}")
    column.label(text=f"{server.frames} frames, {server.predictions} predictions, {server.solves} solves")
    for line in state.lines:
        column.label(text=line[:60])


def _sending(layout: Any, asked: Any) -> None:
    """Where the pose goes."""
    column = layout.column(align=True)
    if state.send is None:
        column.operator("neural_ik.send_pose", icon="EXPORT")
        row = column.row(align=True)
        row.prop(asked, "vmc_host")
        row.prop(asked, "vmc_port")
        return
    column.operator("neural_ik.send_pose_stop", icon="CANCEL")
    column.label(text=f"{state.send.ob} to {state.send.where}")


_classes = (
    NEURAL_IK_Teach,
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
    NEURAL_IK_PT_teach,
)


def register() -> None:
    """Register settings, buttons and panel."""
    for cls in _classes:
        bpy.utils.register_class(cls)
    types: Any = bpy.types
    types.WindowManager.neural_ik_teach = PointerProperty(type=NEURAL_IK_Teach)


def unregister() -> None:
    """Take them out."""
    types: Any = bpy.types
    del types.WindowManager.neural_ik_teach
    for cls in reversed(_classes):
        bpy.utils.unregister_class(cls)
