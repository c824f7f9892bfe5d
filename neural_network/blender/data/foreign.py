# SPDX-License-Identifier: GPL-3.0-or-later
"""Motion from what Blender itself reads or holds: FBX, glTF and VRM animation files, and other armatures in the scene, as Clips.

A file is imported into a scene of its own, which is evaluated frame by frame and removed with everything that the import made, so
the user's scene, its frame rate and its selection stay as they are. Skeletons may come as armatures or, in files of motion alone, as
empties.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from ...formats import gltf_bones
from ...motion.clip import Clip
from ...motion.posed_clip import posed_clip
from ...rigs.roles import Roles, named_roles
from ..host import actions as blender_actions
from ..host import evaluating, runtime
from ..host import rig as rigs
from ..host.importers import importers, why_unread
from ..host.jobs import Progress

SUFFIXES = (".fbx", ".glb", ".gltf", ".vrma", ".vrm")
"""Files that are imported this way."""
GLTF = (".glb", ".gltf", ".vrma", ".vrm")
LEAST = 5  # bones of a skeleton
SAID_EVERY = 16  # frames from one sign of progress to the next


@dataclass(frozen=True)
class Found:
    """One take of one skeleton."""

    clip: Clip
    roles: Roles | None = None
    """As the file, or the panel Roles, says them; None where they are to be found."""


@dataclass
class _Take:
    """What is played at once: objects, and the action and the handle of its slot that each plays."""

    name: str
    plays: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Object's name -> action's name and handle of the slot."""


# ---------------------------------------------------------------- files


def clips_of_file(context: bpy.types.Context, path: Path, fps: float) -> Generator[Progress, None, list[Found]]:
    """The takes of every skeleton in a file, at the file's frame rate where it has one, else at ``fps``.

    Nothing of the file stays in Blender, also where the generator is closed or fails. Raises ValueError, in words.
    """
    known = gltf_bones.read(path) if path.suffix.lower() in GLTF else None
    before = _everything()
    scene = bpy.data.scenes.new("Neural IK Import")
    evaluation = evaluating.begin()
    made: list[bpy.types.ID] = [scene]
    evaluation.restore = lambda: _remove(made)
    try:
        scene.unit_settings.system, scene.unit_settings.scale_length = "METRIC", 1.0
        scene.render.fps, scene.render.fps_base = max(round(fps), 1), max(round(fps), 1) / fps
        yield Progress(0, 1, f"{path.name}: Blender reads it")
        try:
            _import(context, scene, path)
        finally:
            made += [thing for thing in _everything() if thing not in before and thing != scene]
        _remove([ob for ob in scene.objects if ob.type not in ("ARMATURE", "EMPTY")])  # meshes only take time
        skeletons = _skeletons(scene, known)
        if not skeletons:
            raise ValueError(
                f"{path.name}: no skeleton in it, neither an armature nor a tree of {LEAST} or more empties"
            )
        out: list[Found] = []
        for skeleton in skeletons:
            takes = skeleton.takes([thing for thing in made if isinstance(thing, bpy.types.Action)])
            for take in takes:
                name = path.stem if len(takes) == 1 else take.name
                out.append((yield from _sampled(scene, skeleton, take, name, evaluation)))
        if not out:
            raise ValueError(
                f"{path.name}: a skeleton without motion; import the character itself, or give a file with an animation"
            )
        return out
    finally:
        evaluating.end(evaluation)


def _everything() -> set[bpy.types.ID]:
    out: set[bpy.types.ID] = set()
    for name in dir(bpy.data):
        found = getattr(bpy.data, name)
        if isinstance(found, bpy.types.bpy_prop_collection):
            out.update(found)
    return out


def _remove(made: list[bpy.types.ID]) -> None:
    bpy.data.batch_remove([thing for thing in made if _is_there(thing)])


def _is_there(thing: bpy.types.ID) -> bool:
    try:
        return bool(thing.name)
    except ReferenceError:
        return False


def _import(context: bpy.types.Context, scene: bpy.types.Scene, path: Path) -> None:
    suffix = path.suffix.lower()
    found = importers(suffix)
    if not found:
        raise ValueError(
            f"{path.name}: this Blender cannot import {suffix} files: enable its add-on in the Preferences"
        )
    failed: Exception | None = None
    window = context.window or context.window_manager.windows[0]
    kept = window.scene, window.view_layer
    try:
        for importer in found:
            window.scene = scene  # importers work in the window's scene; nothing is drawn before it is the user's again
            try:
                with context.temp_override(window=window):
                    importer(filepath=str(path), **_settings(importer))
            except RuntimeError as error:
                failed = failed or error
            else:
                return
    finally:
        window.scene = kept[0]
        window.view_layer = kept[1]
    assert failed is not None
    raise ValueError(f"{path.name}: {why_unread(failed)}") from failed


def _settings(importer: Any) -> dict[str, Any]:
    """What is not needed of a file, as far as an importer has a setting for it."""
    known = set(importer.get_rna_type().properties.keys())
    wanted = {
        "disable_bone_shape": True,
        "import_shading": "NORMALS",
        "use_custom_normals": False,
        "use_image_search": False,
    }
    return {name: value for name, value in wanted.items() if name in known}


# ---------------------------------------------------------------- skeletons


class _Skeleton:
    """Bones that are watched, by name: no reference to Blender's data is kept between two ticks."""

    objects: tuple[str, ...]
    names: tuple[str, ...]
    parents: np.ndarray
    rest: np.ndarray
    tips: dict[int, np.ndarray]
    roles: Roles | None

    def posed(self, depsgraph: Any) -> np.ndarray:
        """(J, 4, 4) the bones as they are shown, in world space."""
        raise NotImplementedError

    def takes(self, actions: Sequence[bpy.types.Action]) -> list[_Take]:
        """What may be played on it: NLA tracks of one name together, else its actions; ``actions`` are those of the file."""
        return _takes(self.objects, actions)


class _Armature(_Skeleton):
    """The bones of an armature object."""

    def __init__(self, ob: Any, roles: Roles | None = None) -> None:
        if ob.data.pose_position == "REST":
            ob.data.pose_position = "POSE"
        self.objects = (ob.name, *_above(ob))
        self.names = tuple(b.name for b in ob.pose.bones)
        place = {name: i for i, name in enumerate(self.names)}
        self.parents = np.array([place[b.parent.name] if b.parent else -1 for b in ob.pose.bones])
        world = np.array(ob.matrix_world)
        if np.linalg.det(world[:3, :3]) <= 0:
            raise ValueError(f"{ob.name} is mirrored or has no size: apply its scale (Object > Apply > Scale)")
        world[:3, 3] = 0
        local = np.array([b.bone.matrix_local for b in ob.pose.bones])
        self.rest = _rigid(world @ local)
        leaves = np.setdiff1d(np.arange(len(self.names)), self.parents)
        self.tips = {j: world[:3, :3] @ np.array(ob.pose.bones[j].bone.tail_local) for j in leaves.tolist()}
        self.roles = roles

    def posed(self, depsgraph: Any) -> np.ndarray:
        """As its class says."""
        ob = bpy.data.objects[self.objects[0]].evaluated_get(depsgraph)
        flat = np.empty(16 * len(self.names), np.float32)
        ob.pose.bones.foreach_get("matrix", flat)
        bones = flat.reshape(-1, 4, 4).transpose(0, 2, 1).astype(np.float64)
        return _rigid(np.array(ob.matrix_world) @ bones)


class _Empties(_Skeleton):
    """A tree of objects; where they are at rest is what the file says, or else their first frame."""

    def __init__(self, tree: list[Any], known: gltf_bones.GltfBones | None) -> None:
        self.objects = self.names = tuple(ob.name for ob in tree)
        place = {name: i for i, name in enumerate(self.names)}
        self.parents = np.array([place.get(ob.parent.name, -1) if ob.parent else -1 for ob in tree])
        self.rest = _rigid(np.array([ob.matrix_world for ob in tree]))
        if known is not None and set(self.names) <= set(known.names):
            self.rest = _rigid(known.rest[[known.names.index(name) for name in self.names]])
        self.tips, self.roles = {}, None

    def posed(self, depsgraph: Any) -> np.ndarray:
        """As its class says."""
        found = [bpy.data.objects[name].evaluated_get(depsgraph).matrix_world for name in self.names]
        return _rigid(np.array(found))


def _rigid(matrices: np.ndarray) -> np.ndarray:
    """Matrices (..., 4, 4) without scale."""
    out = np.array(matrices, np.float64)
    out[..., :3, :3] = runtime.orthonormal(out[..., :3, :3])
    return out


def _above(ob: Any) -> tuple[str, ...]:
    """The objects that carry another along, nearest first."""
    out = []
    while ob.parent is not None and ob.parent.name not in out:
        ob = ob.parent
        out.append(ob.name)
    return tuple(out)


def _skeletons(scene: bpy.types.Scene, known: gltf_bones.GltfBones | None) -> list[_Skeleton]:
    """The armatures of an imported scene, or else its trees of empties."""
    layer = scene.view_layers[0]
    layer.update()
    out: list[_Skeleton] = []
    for ob in scene.objects:
        if ob.type == "ARMATURE" and ob.pose is not None and len(ob.pose.bones) >= LEAST:
            out.append(_Armature(ob, _roles_of(known, [b.name for b in ob.pose.bones])))
    if out:
        return out
    for ob in scene.objects:
        if ob.parent is None:
            tree = [ob, *_below(ob)]
            if len(tree) >= LEAST:
                made = _Empties(tree, known)
                made.roles = _roles_of(known, made.names)
                out.append(made)
    return out


def _below(ob: Any) -> list[Any]:
    out = []
    for child in ob.children:
        out += [child, *_below(child)]
    return out


def _roles_of(known: gltf_bones.GltfBones | None, names: Sequence[str]) -> Roles | None:
    if known is None or not {"Hips", "LeftThigh", "RightThigh"} <= set(known.roles):
        return None
    return named_roles({role: name for role, name in known.roles.items() if name in names}, names)


# ---------------------------------------------------------------- takes


def _takes(objects: Sequence[str], actions: Sequence[bpy.types.Action]) -> list[_Take]:
    """The takes of some objects, of which the first is the armature where there is one."""
    tracks: dict[str, _Take] = {}
    playing = _Take("")
    for name in objects:
        ob: Any = bpy.data.objects[name]
        data = ob.animation_data
        if data is None:
            continue
        for track in data.nla_tracks:
            for strip in track.strips:
                if strip.action is not None:
                    tracks.setdefault(track.name, _Take(track.name)).plays.setdefault(
                        name, _slot(strip, strip.action, ob)
                    )
        if data.action is not None:
            playing.plays[name] = _slot(data, data.action, ob)
            playing.name = playing.name or data.action.name
    if tracks:
        return list(tracks.values())
    first: Any = bpy.data.objects[objects[0]]
    others = []
    if first.type == "ARMATURE":  # the add-on for FBX assigns one of several takes
        bones = {pb.name for pb in first.pose.bones}
        used = {action for action, _ in playing.plays.values()}
        for action in actions:
            slots = blender_actions.slots_for(action, first)
            if action.name not in used and slots and _moves(action, slots[0], bones):
                others.append(_Take(action.name, {first.name: (action.name, blender_actions.handle_of(slots[0]))}))
    return [playing, *others] if playing.plays else others


def _slot(holder: Any, action: Any, ob: Any) -> tuple[str, int]:
    if not blender_actions.SLOTTED:
        return action.name, 0
    slot = holder.action_slot or next(iter(blender_actions.slots_for(action, ob)), None)
    return action.name, blender_actions.handle_of(slot)


_BONE = re.compile(r'pose\.bones\["(.*)"\]')


def _moves(action: Any, slot: Any, bones: set[str]) -> bool:
    for curve in blender_actions.curves(action, slot):
        found = _BONE.match(curve.data_path)
        if found and bpy.utils.unescape_identifier(found[1]) in bones:
            return True
    return False


def _sampled(
    scene: bpy.types.Scene, skeleton: _Skeleton, take: _Take, name: str, evaluation: evaluating.Evaluation
) -> Generator[Progress, None, Found]:
    """A take as Blender shows it, on every frame from its first to its last key."""
    ranges: list[np.ndarray] = []
    for who in skeleton.objects:
        data: Any = bpy.data.objects[who].animation_data
        if data is None:
            continue
        data.use_nla = False
        action_name, handle = take.plays.get(who, ("", 0))
        action: Any = bpy.data.actions.get(action_name)
        slot = blender_actions.slot_of(action, handle) if action is not None and handle else None
        blender_actions.assign(data, action, slot)
        if action is not None:
            ranges += [
                np.array(curve.range()) for curve in blender_actions.curves(action, slot) if len(curve.keyframe_points)
            ]
    if not ranges:
        raise ValueError(f"{name}: an animation without keys")
    start, end = min(r[0] for r in ranges), max(r[1] for r in ranges)
    fps = scene.render.fps / scene.render.fps_base
    frames = start + np.arange(int(np.floor(end - start + 1e-3)) + 1)
    clip = yield from sample(scene, skeleton, frames, fps, name, evaluation)
    return Found(clip, skeleton.roles)


def sample(
    scene: bpy.types.Scene,
    skeleton: _Skeleton,
    frames: np.ndarray,
    fps: float,
    name: str,
    evaluation: evaluating.Evaluation,
) -> Generator[Progress, None, Clip]:
    """The bones of a skeleton as they are shown on ``frames`` (F) of a scene. Yields Progress; raises ValueError where it was stopped."""
    posed = np.empty((len(frames), len(skeleton.names), 4, 4))
    for f, frame in enumerate(frames.tolist()):
        scene.frame_set(int(np.floor(frame)), subframe=float(frame - np.floor(frame)))
        posed[f] = skeleton.posed(scene.view_layers[0].depsgraph)
        if f % SAID_EVERY == SAID_EVERY - 1:
            yield Progress(f, len(frames), f"{name}: frame {f} of {len(frames)}")
            if evaluation.ended:
                raise ValueError(f"{name}: the import has stopped, because {evaluation.ended}")
    unit = float(scene.unit_settings.scale_length) if scene.unit_settings.system != "NONE" else 1.0
    rest = skeleton.rest.copy()
    for matrices in (rest, posed):
        matrices[..., :3, 3] *= unit
    tips = {j: np.asarray(tip) * unit for j, tip in skeleton.tips.items()}
    return posed_clip(name, skeleton.names, skeleton.parents, rest, posed, fps, tips)


# ---------------------------------------------------------------- armatures in the scene


def clip_of_armature(
    context: bpy.types.Context, ob: bpy.types.Object, first: int, last: int
) -> Generator[Progress, None, list[Found]]:
    """What another armature of the scene shows from frame ``first`` to ``last``; the frame that is shown is restored.

    Raises ValueError, in words.
    """
    scene = context.scene
    assert scene is not None
    if ob.pose is None or len(ob.pose.bones) < LEAST:
        raise ValueError(f"{ob.name} has fewer than {LEAST} bones: choose an armature that is a skeleton")
    if last < first:
        raise ValueError(f"frames: expected the last not before the first, got {first} to {last}")
    given = rigs.given_roles(ob)
    roles = named_roles(given, [pb.name for pb in ob.pose.bones], f"the roles of {ob.name}") if given else None
    evaluation = evaluating.begin()
    shown = scene.frame_current, scene.frame_subframe

    def restore() -> None:
        scene.frame_set(shown[0], subframe=shown[1])

    evaluation.restore = restore
    try:
        skeleton = _Armature(ob, roles)
        fps = scene.render.fps / scene.render.fps_base
        clip = yield from sample(scene, skeleton, np.arange(first, last + 1), fps, ob.name, evaluation)
        return [Found(clip, roles)]
    finally:
        evaluating.end(evaluation)
