# SPDX-License-Identifier: GPL-3.0-or-later
"""The first press on characters as their families build them: Roles, Extract Data, Import Mocap, Live IK and Bake, in Blender.

``python -m benchmarks.first_press [FAMILY ...]`` builds an armature for each family of :mod:`benchmarks.rig_families` in an empty scene,
with the bone axes, rotation, scale and rest pose that its importer leaves, and presses each button once with the weights that came
with Neural IK. Where Rigify is there, its generated human is one more family. Every figure is taken from bones as Blender evaluates
them: Extract, the largest distance of a bone's head from the extracted pose; Import, the largest angle of arms and legs to the source
and, in a second column, how deep feet go below the floor; Live IK and Bake, the largest distance of a target from its bone.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("BLENDER_USER_RESOURCES", tempfile.mkdtemp(prefix="neural_ik_"))

import bpy
import numpy as np
from mathutils import Matrix

from neural_network.core.rotations import matrix_from_axis_angle
from neural_network.formats import bvh

from . import blender_rigs, rigs

FRAMES = 12
STEPS = 20
"""Moves of the dragged hand, of 2 cm."""


@dataclass
class Row:
    """What the buttons said to one family."""

    family: str
    cells: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    """Column -> the message where a button was refused."""


# ---------------------------------------------------------------- the buttons


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what Blender itself prints."""
    sys.stdout.flush()
    kept, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nothing)


def try_roles(ob: Any, rig: rigs.FamilyRig | None) -> str:
    """How many roles are right."""
    from neural_network.blender.host import rig as host

    found = host.find_roles(ob)
    names = [pb.name for pb in ob.pose.bones]
    if rig is None:
        return f"{sum(j is not None for j in found.bones.values())} of 23"
    wrong = [role for role, j in found.bones.items() if (None if j is None else names[j]) not in rig.roles[role]]
    return f"{23 - len(wrong)} of 23 right, wrong: {', '.join(wrong)}" if wrong else "works"


def _heads(ob: Any, read: Any) -> np.ndarray:
    """(J, 3) [m, rig space] heads of the controlled bones as Blender shows them."""
    shown = ob.evaluated_get(bpy.context.evaluated_depsgraph_get())
    return np.array([shown.pose.bones[int(b)].matrix.translation for b in read.index]) @ read.turn.T * read.unit


def try_extract(ob: Any) -> str:
    """Keys on the bones with a role, extracted; [mm] the largest error of a bone's head."""
    from neural_network.blender.host import control_rigs, memory
    from neural_network.core import forward_kinematics as fk

    rng = np.random.default_rng(3)
    for pb in _posable(ob):
        for frame in (1, FRAMES):
            turn = matrix_from_axis_angle(rng.normal(0, 0.12, 3))
            pb.matrix_basis = Matrix(turn.tolist()).to_4x4()
            pb.keyframe_insert(
                "rotation_quaternion" if pb.rotation_mode == "QUATERNION" else "rotation_euler", frame=frame
            )
    bpy.ops.neural_ik.extract_data()
    poses = memory.memory.poses
    read = control_rigs.read_any(ob)
    wanted = fk.armature_matrices(read.skeleton, poses.rot.astype(float), poses.root_pos.astype(float))[..., :3, 3]
    worst = 0.0
    for frame in range(poses.frames):
        bpy.context.scene.frame_set(frame + 1)
        worst = max(worst, float(np.abs(_heads(ob, read) - wanted[frame]).max()))
    return f"works {1000 * worst:.2f} mm"


def _posable(ob: Any) -> list[Any]:
    """The bones that somebody would key: controls where there are some, else those with a role."""
    from neural_network.blender.host import rig as host

    fk_controls = [pb for pb in ob.pose.bones if re.search(r"_fk|^(torso|head|neck|shoulder)", pb.name)]
    if any(pb.name.startswith("ORG-") for pb in ob.pose.bones) and fk_controls:
        for pb in ob.pose.bones:
            if "IK_FK" in pb:
                pb["IK_FK"] = 1.0
        return [pb for pb in fk_controls if not pb.name.startswith(("MCH-", "ORG-", "DEF-"))]
    found = host.find_roles(ob).bones
    return [ob.pose.bones[j] for j in found.values() if j is not None]


def try_import(ob: Any, folder: Path) -> str:
    """A walk in a BVH file, imported; [degrees] of the limbs to the source, [mm] below the floor."""
    from neural_network.blender.host import actions, control_rigs
    from neural_network.rigs.rig_body import clip_motion, clip_roles

    before = set(bpy.data.actions)
    bpy.ops.neural_ik.import_mocap(directory=str(folder))
    (action,) = set(bpy.data.actions) - before
    data = ob.animation_data_create()
    actions.assign(data, action, actions.slots_for(action, ob)[0] if actions.SLOTTED else None)
    source = bvh.read(folder / "walk.bvh")
    roles = clip_roles(source)
    _, motion = clip_motion(source, roles)
    there = {r: j for r, j in roles.bones.items() if j is not None}
    read = control_rigs.read_any(ob)
    own = {role: j for j, role in enumerate(read.roles)}
    heads = []
    fps = bpy.context.scene.render.fps / bpy.context.scene.render.fps_base
    for frame in range(source.frames):
        at = frame * fps / source.fps
        bpy.context.scene.frame_set(1 + int(at), subframe=at % 1)
        heads.append(_heads(ob, read))
    shown, wanted = (
        blender_rigs.limb_directions(np.array(heads), own),
        blender_rigs.limb_directions(motion.heads, there),
    )
    angle = np.degrees(np.arccos(np.clip(np.sum(shown * wanted, axis=-1), -1, 1)))
    low = min(float(np.array(heads)[:, own[f], 2].min()) for f in ("LeftFoot", "RightFoot"))
    return f"works {np.nanmax(angle[:, [0, 1, 4, 5]]):.2f}, {np.nanmax(angle):.2f} deg; foot {low * 1000:.0f} mm"


def try_live(ob: Any) -> tuple[str, str]:
    """A hand dragged in small steps, with both feet held, then baked; [mm] the largest miss of either."""
    from neural_network.blender.posing import live_ik, state

    bpy.ops.neural_ik.live_start()
    (collection,) = live_ik.collections()
    live = live_ik.live_of(collection)
    found = live_ik.target_objects(collection)
    hand = found["EFFECTOR", "RightHand"]
    if not live.session.__class__.__name__.startswith("Drag"):
        raise ValueError("natural posing does not know this rig")
    worst = 0.0
    began = found["EFFECTOR", "RightHand"].matrix_world.translation.copy()
    index = {live.rig.roles[e]: int(live.rig.index[e]) for e in live.rig.skeleton.effectors}
    for step in range(STEPS):
        hand.location.y -= 0.016
        hand.location.z -= 0.012 if step < STEPS // 2 else -0.012
        bpy.context.view_layer.update()
        worst = max(worst, _missed(ob, found, index, ("RightHand", "LeftFoot", "RightFoot")))
    if live.problem:
        raise ValueError(live.problem)
    travelled = (ob.matrix_world @ ob.pose.bones[index["RightHand"]].head - began).length
    if travelled < 0.3:
        raise ValueError(f"the hand moved {travelled:.2f} m only")
    words = f"works {1000 * worst:.2f} mm"
    said = state.verdict(live)
    words += f" ({said})" if said else ""
    try:
        bpy.context.scene.frame_set(1)
        places = {key: ob_.matrix_world.translation.copy() for key, ob_ in found.items()}
        bpy.ops.neural_ik.live_bake(first=1, last=3)
        bpy.context.scene.frame_set(2)
        shown = ob.evaluated_get(bpy.context.evaluated_depsgraph_get())
        off = max(
            (ob.matrix_world @ shown.pose.bones[index[role]].head - places["EFFECTOR", role]).length
            for role in ("RightHand", "LeftFoot", "RightFoot")
        )
        return words, f"works {1000 * off:.2f} mm"
    except Exception as error:
        return words, _said(error)


def _missed(ob: Any, found: dict[Any, Any], index: dict[str, int], roles: tuple[str, ...]) -> float:
    shown = ob.evaluated_get(bpy.context.evaluated_depsgraph_get())
    return max(
        float(
            (ob.matrix_world @ shown.pose.bones[index[r]].head - found["EFFECTOR", r].matrix_world.translation).length
        )
        for r in roles
        if r in index
    )


def _said(error: Exception) -> str:
    return "refused: " + " ".join(str(error).split()).removeprefix("Error: ")


def press_all(family: str, make: Callable[[], Any], rig: rigs.FamilyRig | None, folder: Path) -> Row:
    """Every button on a fresh character."""
    row = Row(family)
    for name in ("Roles", "Extract", "Import", "Live IK"):
        with _quiet():
            bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
            _start()
            ob = make()
            try:
                if name == "Roles":
                    row.cells[name] = try_roles(ob, rig)
                elif name == "Extract":
                    row.cells[name] = try_extract(ob)
                elif name == "Import":
                    row.cells[name] = try_import(ob, folder)
                else:
                    row.cells[name], row.cells["Bake"] = try_live(ob)
            except Exception as error:
                row.cells[name] = _said(error)
    return row


def _start() -> None:
    from neural_network import blender
    from neural_network.blender.host import memory

    if not hasattr(bpy.types, "NEURAL_IK_OT_import_mocap"):
        blender.register("neural_ik_first_press")
    memory.start("neural_ik_first_press")
    user = Path(tempfile.mkdtemp(prefix="neural_ik_"))
    memory.folder = lambda: user  # type: ignore[assignment]
    memory.memory.network = memory.memory.poses = None
    bpy.context.scene.render.fps = 30


def main() -> None:
    """Print the table."""
    wanted = sys.argv[1:]
    made = rigs.all_rigs()
    with tempfile.TemporaryDirectory(prefix="neural_ik_") as name:
        folder = Path(name)
        bvh.write(folder / "walk.bvh", rigs.walk(made["mixamo"]))
        rows: list[tuple[str, Callable[[], Any], rigs.FamilyRig | None]] = [
            (family, lambda family=family, rig=rig: blender_rigs.build(family, rig), rig)
            for family, rig in made.items()
        ]
        rows.append(("rigify generated", blender_rigs.generated_rigify, None))
        for family, make, rig in rows:
            if wanted and not any(word in family for word in wanted):
                continue
            row = press_all(family, make, rig, folder)
            for column, cell in row.cells.items():
                if not cell.startswith("works"):
                    row.words[column] = cell
            sys.stdout.write(f"| {row.family} | " + " | ".join(c[:150] for c in row.cells.values()) + " |\n")
            sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
