# SPDX-License-Identifier: GPL-3.0-or-later
"""Import Mocap from FBX, GLB, VRM animation files, empties and other armatures, against Blender's own evaluation of the source.

``python -m benchmarks.carry`` imports each source onto a few characters of :mod:`benchmarks.blender_rigs` with the button, plays the action
that it made, and imports the source itself into the scene beside it. Printed are, over all frames, the largest angle between the
directions of upper arms and forearms, and of thighs and shins, of the two as Blender evaluates them, and how deep a foot goes below
the floor. Real files are those of ``NIK_MOCAP``.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("BLENDER_USER_RESOURCES", tempfile.mkdtemp(prefix="neural_ik_"))

import bpy
import numpy as np

from neural_network.rigs.roles import find_roles

from . import blender_rigs, first_press, gltf_writer, rigs

FPS = 30
TARGETS = ("mixamo", "unreal mannequin 5", "vroid", "daz genesis 8", "rigify generated")
Source = tuple[str, Callable[[], None]]


def _target(name: str) -> Any:
    made = (
        blender_rigs.generated_rigify()
        if name == "rigify generated"
        else blender_rigs.build(name, rigs.all_rigs()[name])
    )
    bpy.context.view_layer.objects.active = made
    return made


def _heads(ob: Any, names: list[str]) -> np.ndarray:
    shown = ob.evaluated_get(bpy.context.evaluated_depsgraph_get())
    return np.array([ob.matrix_world @ shown.pose.bones[n].head for n in names])


class Truth:
    """The source as Blender imports and evaluates it."""

    def __init__(self, path: Path | None, armature: Any = None) -> None:
        before = set(bpy.data.objects)
        if path is not None:
            if path.suffix == ".fbx":
                (bpy.ops.wm.fbx_import if bpy.app.version >= (4, 5, 0) else bpy.ops.import_scene.fbx)(
                    filepath=str(path)
                )
            else:
                bpy.ops.import_scene.gltf(filepath=str(path))
        made = [armature] if armature is not None else [o for o in bpy.data.objects if o not in before]
        self.armature = next((o for o in made if o.type == "ARMATURE"), None)
        if self.armature is not None:
            bones = list(self.armature.data.bones)
            self.names = [b.name for b in bones]
            parents = [self.names.index(b.parent.name) if b.parent else -1 for b in bones]
            world = self.armature.matrix_world
            heads = np.array([world @ b.head_local for b in bones])
        else:
            self.objects = [o for o in made if o.type == "EMPTY"]
            self.names = [o.name for o in self.objects]
            parents = [self.names.index(o.parent.name) if o.parent in self.objects else -1 for o in self.objects]
            bpy.context.scene.frame_set(0)
            heads = self.heads()
        self.parents = np.array(parents)
        self.rest = heads

    def play(self, name: str) -> tuple[int, int]:
        """Play the take of that name alone; its first and last frame."""
        spans = []
        for ob in [self.armature] if self.armature is not None else self.objects:
            data = ob.animation_data
            if data is None:
                continue
            for track in data.nla_tracks:
                track.mute = track.name != name
                if not track.mute or len(data.nla_tracks) == 1:
                    data.action = None
                    track.mute = False
                    spans += [(s.frame_start, s.frame_end) for s in track.strips]
            if data.action is not None:
                spans.append(tuple(data.action.frame_range))
        return round(min(s[0] for s in spans)), round(max(s[1] for s in spans))

    def heads(self) -> np.ndarray:
        """(J, 3) as shown."""
        if self.armature is not None:
            return _heads(self.armature, self.names)
        graph = bpy.context.evaluated_depsgraph_get()
        return np.array([o.evaluated_get(graph).matrix_world.translation for o in self.objects])

    def bones(self, known: dict[str, str]) -> dict[str, int]:
        """Role -> bone."""
        if known:
            return {role: self.names.index(name) for role, name in known.items() if name in self.names}
        found = find_roles(self.names, self.parents, self.rest).bones
        return {role: j for role, j in found.items() if j is not None}


def compare(
    label: str,
    target: str,
    path: Path | None,
    take: str,
    known: dict[str, str],
    make: Callable[[], Any] | None = None,
    plant: bool = True,
) -> str:
    """One row of the table."""
    from neural_network.blender.host import actions, control_rigs

    with first_press._quiet():
        bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
        first_press._start()
        bpy.context.scene.render.fps = FPS
        source = make() if make is not None else None
        ob = _target(target)
        before = set(bpy.data.actions)
        if source is not None:
            bpy.ops.neural_ik.carry_armature(
                source=source.name, first=1, last=bpy.context.scene.frame_end, plant_feet=plant
            )
        else:
            bpy.ops.neural_ik.import_mocap(filepath=str(path), clean=False, plant_feet=plant)
        new = sorted(set(bpy.data.actions) - before, key=lambda a: a.name)
        action = next(a for a in new if take in (a.name, "")) if len(new) > 1 else new[0]
        data = ob.animation_data_create()
        actions.assign(data, action, actions.slots_for(action, ob)[0] if actions.SLOTTED else None)
        truth = Truth(path, source)
        first, last = truth.play(take) if source is None else (1, bpy.context.scene.frame_end)
        read = control_rigs.read_any(ob)
        own = {role: j for j, role in enumerate(read.roles)}
        names = [read.bones[i] for i in read.index]
        shown, wanted = [], []
        for frame in range(last - first + 1):
            bpy.context.scene.frame_set(first + frame)
            wanted.append(truth.heads())
            bpy.context.scene.frame_set(1 + frame)
            shown.append(_heads(ob, names))
    theirs = truth.bones(known)
    a, b = blender_rigs.limb_directions(np.array(shown), own), blender_rigs.limb_directions(np.array(wanted), theirs)
    angle = np.degrees(np.arccos(np.clip(np.sum(a * b, axis=-1), -1, 1)))
    unit = float(bpy.context.scene.unit_settings.scale_length)
    feet = np.array(shown)[:, [own["LeftFoot"], own["RightFoot"]]] * unit
    toes = [own[t] for t in ("LeftToeBase", "RightToeBase") if t in own]
    low = np.concatenate([feet, np.array(shown)[:, toes]], axis=1)[..., 2].min() if toes else feet[..., 2].min()
    arms, legs = angle[:, [0, 1, 4, 5]], angle[:, [2, 3, 6, 7]]
    directions = f"{np.nanmax(arms):.2f} | {np.nanmedian(legs):.2f}, {np.nanmax(legs):.2f}"
    return (
        f"| {label} | {target} | {'planted' if plant else 'as they are'} | {len(shown)} | {directions} | "
        f"{1000 * min(low, 0):.1f} |\n"
    )


def main() -> None:
    """Print the table."""
    chosen = sys.argv[1:] or list(TARGETS)
    folder = Path(tempfile.mkdtemp(prefix="neural_ik_"))
    mocap = Path(os.environ["NIK_MOCAP"]) if "NIK_MOCAP" in os.environ else None
    made = rigs.all_rigs()
    clip = replace(rigs.walk(made["mixamo"]), name="walk")
    index = {n: j for j, n in enumerate(clip.names)}
    roles = {r: index[str(n[0])] for r, n in made["mixamo"].roles.items() if n[0] is not None}
    gltf_writer.write(folder / "walk.vrma", clip, roles, rename=True)
    gltf_writer.write(folder / "empties.glb", clip)
    renamed = {role: f"n{j}" for role, j in roles.items()}
    sources: list[tuple[str, Path | None, str, dict[str, str], Callable[[], Any] | None]] = [
        ("VRMA, a walk", folder / "walk.vrma", "walk", renamed, None),
        ("GLB of empties, a walk", folder / "empties.glb", "walk", {}, None),
        ("armature in the scene", None, "", {}, lambda: _walking(made["3ds max biped"], folder)),
    ]
    if mocap is not None:
        sources += [
            ("FBX cmu_85_04", mocap / "fbx" / "cmu_85_04.fbx", "", {}, None),
            ("GLB mesh2motion", mocap / "glb" / "mesh2motion_human_sample.glb", "", {}, None),
            ("GLB kaykit Walking_A", mocap / "glb" / "kaykit_Knight.glb", "Walking_A", {}, None),
        ]
    sys.stdout.write(
        "| source | onto | feet | frames | arms, largest angle | legs, median and largest | below the floor, mm |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    for label, path, take, known, make in sources:
        for target in chosen:
            for plant in (True, False):
                sys.stdout.write(compare(label, target, path, take, known, make, plant))
                sys.stdout.flush()
    os._exit(0)


def _walking(rig: rigs.FamilyRig, folder: Path) -> Any:
    """An armature that walks, made by importing a BVH onto it."""
    from neural_network.formats import bvh

    ob = blender_rigs.build("3ds max biped", rig)
    bvh.write(folder / "walk.bvh", rigs.walk(rig))
    bpy.ops.neural_ik.import_mocap(filepath=str(folder / "walk.bvh"), clean=False)
    bpy.context.scene.frame_end = 48
    return ob


if __name__ == "__main__":
    main()
