# SPDX-License-Identifier: GPL-3.0-or-later
"""Batch extraction: open or import every motion file in a folder with Blender, and extract its armatures."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from ...core import forward_kinematics as fk
from ...core.files import keep_apart, write_whole
from ...core.messages import counted, flush, show
from ...core.reference_rig import reference
from ...formats import batch_arguments, importing
from ...formats.importing import ImportOptions
from ...learning.arguments import require_writable
from ...learning.stopping import ENDING, Terminated, exit_code
from ...motion import pose_set
from ...motion.pose_set import PoseSet
from ...rigs import retarget, rig_body
from ..host import actions as blender_actions
from ..host import control_rigs, dependencies
from ..host.importers import ADDONS, importers, why_unread
from ..host.rig import SAME
from . import extract, mocap

SUFFIXES = (".blend", ".glb", ".gltf", ".fbx", ".bvh", ".amc")
IMPORT_FPS = 30.0  # of files whose keys are in seconds, unless --fps is given


@dataclass(frozen=True)
class ArmatureReport:
    """The result for one armature of a file, or for a file without one."""

    path: str
    armature: str = ""
    clips: tuple[str, ...] = ()
    joints: int = 0
    frames: int = 0
    reason: str = ""
    """Why there are no poses; empty if there are."""
    warnings: tuple[str, ...] = ()


def main(words: Sequence[str]) -> int:
    """Run with the arguments ``words`` of a command line; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that the console cannot show must not stop the run
            stream.reconfigure(errors="backslashreplace")
    args = batch_arguments.parser().parse_args(words)
    output: Path = args.output
    try:
        files = find_files(args.paths)
        kept = {"--output": output, **({"--json": args.json} if args.json else {})}
        keep_apart({f"{path}": path for path in files}, kept)
        for path, suffixes in ((output, (".npz",)), (args.json, ())):
            require_writable(path, *suffixes)
    except (ValueError, OSError) as error:
        show(f"error: {error}", error=True)
        return 2
    rows: list[ArmatureReport] = []
    found: list[PoseSet] = []
    written: list[tuple[Path, PoseSet]] = []
    done = 0
    try:
        with _Interrupts() as interrupts:
            for n, path in enumerate(files):
                for row, poses in extract_file(path, args.fps, args.rig, args.timeline):
                    interrupts.check()
                    rows.append(row)
                    found += [poses] if poses is not None else []
                    show(f"{n + 1}/{len(files)} {_summary(row)}")
                interrupts.check()
                done = n + 1
            interrupts.wait = True  # so that it is known of each file whether it was written
            for path, poses in joined(found, output, args.json) if found else ():
                pose_set.save(path, poses)
                written.append((path, poses))
                interrupts.check()
            _report_file(args.json, rows)
    except KeyboardInterrupt as stop:
        names = ", ".join(str(path) for path, _ in written)
        what = f"written: {names}" if written else f"nothing was written to {output}"
        show(f"Stopped after {done} of {counted(len(files), 'file')}; {what}.", error=True)
        return exit_code(stop)
    except (ValueError, OSError) as error:
        show(f"error: {error}", error=True)
        return 2
    if not written:
        show(f"error: no poses in {counted(len(files), 'file')}; the first reason: {rows[0].reason}", error=True)
        return 1
    for path, poses in written:
        clips = counted(len(poses.clip_names), "clip")
        show(f"{path}: {clips}, {counted(poses.frames, 'frame')}, {counted(poses.skeleton.count, 'bone')}")
    return 0


class _Interrupts:
    """Ctrl-C and the signals that end programs, even where Blender's importers swallow them or report them as their errors.

    A signal that is ignored stays so: ``nohup`` has asked for that.
    """

    def __enter__(self) -> _Interrupts:
        self.stop: KeyboardInterrupt | None = None
        self.wait = False  # raise in ``check`` alone
        numbers = [n for n in (signal.SIGINT, *ENDING) if signal.getsignal(n) != signal.SIG_IGN]
        self.before = {number: signal.signal(number, self._come) for number in numbers}
        return self

    def _come(self, number: int, *_: object) -> None:
        if self.stop is None:  # a second one changes nothing
            self.stop = KeyboardInterrupt() if number == signal.SIGINT else Terminated(number)
            if not self.wait:
                raise self.stop

    def check(self) -> None:
        """Raise KeyboardInterrupt if one came."""
        if self.stop is not None:
            raise self.stop

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            # Blender's own handler is not a Python one and cannot be restored; the default one also ends it
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def end(code: int) -> None:
    """Exit with a code, also inside Blender, which would otherwise exit with its own."""
    flush()
    os._exit(code) if bpy.app.binary_path else sys.exit(code)


def find_files(paths: Sequence[Path]) -> list[Path]:
    """The motion files among ``paths`` and in the folders among them, sorted. Raises ValueError if there are none."""
    found: set[Path] = set()
    for given in paths:
        if given.is_dir():
            inside = (Path(folder) / name for folder, _, names in os.walk(given) for name in names)
            found.update(
                p for p in inside if p.suffix.lower() in SUFFIXES and not p.name.startswith(".") and p.is_file()
            )
        elif given.is_file():
            found.add(given)
        else:
            raise ValueError(f"{given}: {'not a file' if given.exists() else 'no such file or folder'}")
    if not found:
        raise ValueError(f"no {', '.join(SUFFIXES)} file in {', '.join(map(str, paths))}")
    return sorted(found)


def extract_file(
    path: Path, fps: float | None, onto: str, timeline: bool = False
) -> Iterator[tuple[ArmatureReport, PoseSet | None]]:
    """Yield a report and the poses of every animated armature in a file; None instead of poses, with the reason in the report.

    The open scene is replaced: this is for a Blender that does nothing else.
    """
    if path.suffix.lower() in importing.SUFFIXES:
        yield _from_reader(path, fps, onto)
        return
    try:
        _open(path, fps or IMPORT_FPS)
        scenes = _armatures()
    except Exception as error:  # whatever an importer does, it must not cost the other files
        yield ArmatureReport(str(path), reason=why_unread(error)), None
        return
    if not scenes:
        yield ArmatureReport(str(path), reason=f"no armature in it{_missing_libraries()}"), None
    owned = _owned(list(scenes))
    for ob, scene in scenes.items():
        yield _from_armature(path, scene, ob, owned[ob], Sampling(fps, onto, timeline))


@dataclass(frozen=True)
class Sampling:
    """How each armature is sampled."""

    fps: float | None
    """Frames a second; None for each clip's own."""
    onto: str
    """One of importing.RIGS."""
    timeline: bool
    """The timeline in place of the actions."""


def _armatures() -> dict[bpy.types.Object, bpy.types.Scene]:
    """Every armature of the open file and the scene that evaluates it, whatever hides it there.

    Linked ones become local, and those that are in no scene, such as the sources of instances, are put into the first one.
    """
    out: dict[bpy.types.Object, bpy.types.Scene] = {}
    for given in [ob for ob in bpy.data.objects if ob.type == "ARMATURE" and ob.data is not None]:
        ob: Any = given
        if given.library is not None:
            ob = given.make_local()
            if ob.library is not None:  # what only other linked data uses stays linked
                ob = ob.copy()
                given.user_remap(ob)  # among others its own constraints
        if ob.data.library is not None:
            ob.data = ob.data.copy()
        scenes = [scene for scene in bpy.data.scenes if ob.name in scene.objects and scene.objects[ob.name] == ob]
        scene = scenes[0] if scenes else bpy.data.scenes[0]
        _show(ob, scene)
        if ob.pose is not None:
            out[ob] = scene
    return out


def _show(ob: Any, scene: bpy.types.Scene) -> None:
    """Make an armature visible in the first view layer of a scene, in Object Mode and out of tweak mode."""
    layer = scene.view_layers[0]
    window: Any = bpy.context.window
    if window is not None:
        window.scene, window.view_layer = scene, layer
    ob.hide_viewport = False
    if ob.name in layer.objects:
        ob.hide_set(False, view_layer=layer)
    layer.update()
    if not ob.visible_get(view_layer=layer):
        if ob.name not in scene.collection.objects:
            scene.collection.objects.link(ob)  # the scene's own collection is never excluded
        scene.collection.hide_viewport = False
        layer.update()
        ob.hide_set(False, view_layer=layer)
        layer.update()
    if ob.mode != "OBJECT":
        layer.objects.active = ob
        bpy.ops.object.mode_set(mode="OBJECT")
    if ob.animation_data is not None and ob.animation_data.use_tweak_mode:
        ob.animation_data.use_tweak_mode = False


def _missing_libraries() -> str:
    """The libraries that were not found, as the end of a sentence; empty if all were."""
    files = [bpy.path.abspath(library.filepath) for library in bpy.data.libraries]
    missing = [Path(name).name for name in files if not Path(name).exists()]
    return f"; it links to {', '.join(missing)}, which cannot be found" if missing else ""


def _owned(armatures: list[bpy.types.Object]) -> dict[bpy.types.Object, list[bpy.types.Action]]:
    """The actions of each armature: those that it or what its bones follow plays, and those of nobody, for the first they move."""
    moving = {ob: extract.moving_actions(ob) for ob in armatures}
    played = {ob: _played(ob) for ob in armatures}
    families = {ob: _family(ob) for ob in armatures}
    taken: dict[bpy.types.Action, set[bpy.types.Object]] = {}
    for ob, actions in played.items():
        for action in actions:
            taken.setdefault(action, set()).add(ob)
    out: dict[bpy.types.Object, list[bpy.types.Action]] = {}
    for ob in armatures:
        own = families[ob]
        out[ob] = [action for action in moving[ob] if action not in taken or taken[action] & own]
        for action in out[ob]:
            taken.setdefault(action, set()).add(ob)
    return out


def _family(ob: bpy.types.Object) -> set[bpy.types.Object]:
    """An armature and the objects that its bones follow."""
    return set(dependencies.movers(ob, [pb.name for pb in ob.pose.bones]))


def _played(ob: bpy.types.Object) -> set[bpy.types.Action]:
    """The actions that an object and its NLA strips play."""
    animation: Any = ob.animation_data
    tracks = animation.nla_tracks if animation is not None else ()
    strips = [s for track in tracks for s in blender_actions.every_strip(track.strips)]
    own = [animation.action if animation is not None else None, *(strip.action for strip in strips)]
    return {action for action in own if action is not None}


def _from_reader(path: Path, fps: float | None, onto: str) -> tuple[ArmatureReport, PoseSet | None]:
    """The poses of a file in a format that the project's own readers support."""
    row, clips = mocap.poses_of(path, ImportOptions(rig=onto, fps=fps), None)
    if not clips:
        return ArmatureReport(str(path), joints=row.joints, reason=row.reason, warnings=row.warnings), None
    poses = pose_set.join(clips)
    return ArmatureReport(str(path), "", poses.clip_names, poses.skeleton.count, poses.frames, "", row.warnings), poses


def _from_armature(
    path: Path, scene: bpy.types.Scene, ob: bpy.types.Object, chosen: list[bpy.types.Action], how: Sampling
) -> tuple[ArmatureReport, PoseSet | None]:
    name = ob.name
    try:
        if not chosen and not how.timeline:
            reason = f"no action of its own moves its bones{_missing_libraries()}"
            return ArmatureReport(str(path), name, joints=len(ob.pose.bones), reason=reason), None
        _show(ob, scene)
        rig = control_rigs.read_any(ob)
        parts, notes = _sampled(scene, ob, chosen, how)
        if not parts:
            return ArmatureReport(str(path), name, joints=rig.skeleton.count, reason=notes[0]), None
        poses = pose_set.join(parts)
        if how.onto == "reference":
            poses = _onto_reference(poses, {role: j for j, role in enumerate(rig.roles)})
    except ValueError as error:
        return ArmatureReport(str(path), name, reason=_one_line(error)), None
    except Exception as error:  # a bug, but it must not cost the other files: the report shows it
        reason = f"{type(error).__name__}: {_one_line(error)} (a bug in this program, please report it)"
        return ArmatureReport(str(path), name, reason=reason), None
    return ArmatureReport(
        str(path), name, poses.clip_names, poses.skeleton.count, poses.frames, "", tuple(dict.fromkeys(notes))
    ), poses


def _sampled(
    scene: bpy.types.Scene, ob: bpy.types.Object, chosen: list[bpy.types.Action], how: Sampling
) -> tuple[list[PoseSet], list[str]]:
    """The poses of one armature, and notes about them and about what could not be taken."""
    rates: dict[float, list[bpy.types.Action]] = {}
    for action in () if how.timeline else chosen:
        rates.setdefault(extract.rate_of(action, scene), []).append(action)
    if how.timeline:
        rates[scene.render.fps / scene.render.fps_base] = []
    parts: list[PoseSet] = []
    notes: list[str] = []
    for rate, actions in rates.items():
        options = extract.Options(step=rate / how.fps if how.fps else 1.0, timeline=how.timeline)
        groups = [actions]  # together, so that one motion under several names is noticed
        while groups:
            group = groups.pop(0)
            try:
                part = _drained(extract.extract(scene, ob, group, options))
            except ValueError as error:
                if len(group) > 1:  # one bad action must not cost the others
                    groups += [[action] for action in group]
                else:
                    notes.append(_one_line(error))
                continue
            parts.append(part.poses)
            notes += part.notes
    return parts, notes


def _drained(work: Generator[Any, None, extract.Extraction]) -> extract.Extraction:
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def _open(path: Path, fps: float) -> None:
    """Replace the open file by this one, without running its scripts. Raises what Blender raises, and ValueError.

    Formats whose keys are in seconds are imported at ``fps`` frames a second. FBX is read by Blender's newer importer where
    there is one; where it fails, by the add-on, which stumbles over lights in some versions.
    """
    ops: Any = bpy.ops
    suffix = path.suffix.lower()
    if suffix == ".blend":
        ops.wm.open_mainfile(filepath=str(path), load_ui=False, use_scripts=False)
        return
    if suffix not in ADDONS:
        raise ValueError(f"{path.name}: expected one of {', '.join(SUFFIXES)}")
    failed: Exception | None = None
    for importer in importers(suffix):
        _empty(fps)
        try:
            importer(filepath=str(path))
        except RuntimeError as error:
            failed = failed or error
        else:
            return
    raise failed or ValueError(f"this Blender cannot import {suffix} files: its add-on {ADDONS[suffix]} is missing")


def _empty(fps: float) -> None:
    """An empty file in metres at ``fps`` frames a second."""
    ops: Any = bpy.ops
    ops.wm.read_homefile(
        use_empty=True, use_factory_startup=False
    )  # factory settings would disable add-ons, this one included
    units, render = bpy.context.scene.unit_settings, bpy.context.scene.render
    units.system, units.scale_length = "METRIC", 1.0
    render.fps, render.fps_base = round(fps), round(fps) / fps


def _onto_reference(poses: PoseSet, played: dict[str, int]) -> PoseSet:
    """Poses carried onto the reference rig; ``played`` maps roles to the skeleton's bones. Raises ValueError unless it is a human."""
    source, rig = rig_body.skeleton_body(poses.skeleton, played), reference()
    rig_body.require_legs(source.bones, "character")
    target = rig_body.skeleton_body(rig, {name: j for j, name in enumerate(rig.names)})
    clips = []
    rest = poses.skeleton.rest_arm[:, :3, :3]
    for clip, name in enumerate(poses.clip_names):
        rows = poses.rows(clip)
        posed = fk.armature_matrices(
            poses.skeleton, poses.rot[rows].astype(np.float64), poses.root_pos[rows].astype(np.float64)
        )
        turned = posed[..., :3, :3] @ rest.transpose(0, 2, 1)
        rate = float(poses.clip_fps[clip])
        carried, root = retarget.carry(source, rig_body.RigMotion(turned, posed[..., :3, 3], rate), target)
        rot = retarget.local_rotations(rig, carried)
        clips.append(
            pose_set.make(rig, rot, root, np.zeros(len(rot), int), [name], [poses.clip_tasks[clip]], clip_fps=rate)
        )
    return pose_set.join(clips)


def joined(found: Sequence[PoseSet], output: Path, report: Path | None = None) -> list[tuple[Path, PoseSet]]:
    """Join the poses of equal skeletons; a file to write for each skeleton, a single one to ``output`` itself.

    Raises ValueError if one of the files would be the ``report``, and OSError if one cannot be written.
    """
    groups: list[list[PoseSet]] = []
    for poses in found:
        for group in groups:
            one, other = group[0].skeleton, poses.skeleton
            if one.fingerprint == other.fingerprint and np.abs(one.rest_arm - other.rest_arm).max() < SAME:
                group.append(poses)
                break
        else:
            groups.append([poses])
    sets = [pose_set.join(group) for group in groups]
    paths = importing.outputs(output, [poses.clip_names[0] for poses in sets])
    for path in paths:
        if report is not None and path.resolve() == report.resolve():
            raise ValueError(f"--json: {report} is also where the poses of a skeleton go; choose another name")
        require_writable(path)
    return list(zip(paths, sets, strict=True))


def _summary(row: ArmatureReport) -> str:
    name = Path(row.path).name + (f" ({row.armature})" if row.armature else "")
    if row.reason:
        return f"{name}: not taken. {row.reason}"
    more = f"; {counted(len(row.warnings), 'warning')}, the first: {row.warnings[0]}" if row.warnings else ""
    counts = counted(len(row.clips), "clip"), counted(row.frames, "frame"), counted(row.joints, "bone")
    return f"{name}: {', '.join(counts)}{more}"


def _report_file(path: Path | None, rows: Sequence[ArmatureReport]) -> None:
    if path is not None:
        lines = "".join(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows)
        write_whole(path, lines.encode("utf-8", "backslashreplace"))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
