# SPDX-License-Identifier: GPL-3.0-or-later
"""The panel Physics: a walk that floats and drifts becomes one that the ground carries, as a ghost, then as keys; its score is told."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from .conftest import wing
from .test_extract import snapshot
from .test_ghost import curves, keys_of, require_kept

LIFT, DRIFT = 0.05, 0.008  # [m], [m a frame]


@pytest.fixture
def lifted(demo: Any) -> Any:
    """The demo character's walk five centimetres above the floor, and sliding."""
    import bpy
    from mathutils import Vector

    keyframes, turn = wing("blender.host.keyframes"), demo.data.bones["Hips"].matrix_local.to_3x3().inverted()
    drift, lift = turn @ Vector((0, DRIFT, 0)), turn @ Vector((0, 0, LIFT))
    for curve in curves(demo):
        if curve.data_path == 'pose.bones["Hips"].location':
            keys = keyframes.read_keys(curve)
            i = curve.array_index
            keyframes.write_curve(curve, keys["co"][:, 0], keys["co"][:, 1] + drift[i] * keys["co"][:, 0] + lift[i])
    bpy.context.scene.frame_set(2)
    yield demo
    wing("blender.host.ghost").drop()
    wing("blender.physics.scores").forget()


def scores_before(ob: Any) -> np.ndarray:
    return wing("blender.physics.scores").of(ob).score


def ghost() -> Any:
    return wing("blender.host.ghost").current("PHYSICS")


def test_make_physical_shows_a_ghost_and_both_scores_and_accept_keys_it(
    lifted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import bpy

    monkeypatch.setattr(wing("blender.physics.scores"), "RECHECK", 0.0)

    before, scene = keys_of(lifted), snapshot(lifted)
    scores = wing("blender.physics.scores")
    assert bpy.ops.neural_ik.physics_balance() == {"FINISHED"}
    own = scores.of(lifted)
    assert own.score.mean() > 0.5
    assert own.ghost is None
    began = time.process_time()
    assert bpy.ops.neural_ik.physics_mend() == {"FINISHED"}
    spent = time.process_time() - began
    made = ghost()
    found = scores.of(lifted)
    np.testing.assert_allclose(found.score, own.score, atol=1e-6)
    assert found.ghost.mean() < 0.3 * own.score.mean()
    assert made.figures[0].startswith("Balance score 0.")
    assert any(line.startswith("Contacts found") for line in made.figures)
    assert spent * 300 / len(found.score) < 20  # [s] ten times the aim: tests share the machine
    assert snapshot(lifted) == scene
    require_kept(lifted, before, tuple(range(200)))
    overlay = wing("blender.physics.overlay")
    dim, bright = overlay.shown(bpy.context)
    assert dim[1].mean() > bright[1].mean()
    np.testing.assert_allclose(bright[0][0], [own.first - 0.5, own.first + 0.5])
    assert bpy.ops.neural_ik.physics_worst() == {"FINISHED"}
    assert bpy.context.scene.frame_current == own.first + own.score.argmax()
    assert bpy.ops.neural_ik.ghost_accept() == {"FINISHED"}
    assert scores.of(lifted) is None  # the action has changed
    assert overlay.shown(bpy.context) == []
    assert bpy.ops.neural_ik.physics_balance() == {"FINISHED"}
    now = scores.of(lifted).score
    assert now.mean() < 0.3 * own.score.mean()
    np.testing.assert_allclose(now, found.ghost, atol=0.05)
    assert bpy.ops.neural_ik.physics_hide() == {"FINISHED"}
    assert scores.of(lifted) is None


def test_contacts_as_marked_a_mesh_as_ground_and_hands_that_hold(lifted: Any) -> None:
    import bpy

    markers = wing("blender.host.contact_markers")
    bpy.ops.mesh.primitive_plane_add(size=30, location=(0, 0, LIFT))
    lifted.neural_ik_physics.ground = bpy.context.object
    bpy.context.view_layer.objects.active = lifted
    assert bpy.ops.neural_ik.physics_balance() == {"FINISHED"}
    assert wing("blender.physics.scores").of(lifted).score.mean() < 0.3  # it stands on the mesh
    before = scores_before(lifted)
    action = lifted.animation_data.action
    for name, frame in (("Left Foot down", 2), ("Left Foot up", 4), ("Right Hand down", 12), ("Right Hand up", 17)):
        markers.add(action, name, frame)
    assert bpy.ops.neural_ik.physics_mend() == {"FINISHED"}
    made = ghost()
    assert "Contacts as marked" in made.figures
    names = made.motion.rig.skeleton.names
    hand = made.heads[11:16, names.index("RightHand")]
    assert np.linalg.norm(np.diff(hand, axis=0), axis=1).max() < 0.02
    held = wing("blender.physics.scores").of(lifted).score
    assert held[12:15].max() <= before[12:15].max() + 1e-6  # what a hand holds may carry


def test_sound_motion_and_what_cannot_be_weighed_change_nothing(demo: Any) -> None:
    import bpy

    before, action = keys_of(demo), demo.animation_data.action
    demo.neural_ik_physics.frames = "SCENE"
    bpy.context.scene.frame_start, bpy.context.scene.frame_end = 5, 6
    with pytest.raises(RuntimeError, match="3 frames or more, got 2"):
        bpy.ops.neural_ik.physics_mend()
    demo.animation_data.action = None
    with pytest.raises(RuntimeError, match="has no current action"):
        bpy.ops.neural_ik.physics_balance()
    with pytest.raises(RuntimeError, match="No score is shown"):
        bpy.ops.neural_ik.physics_worst()
    demo.animation_data.action = action
    require_kept(demo, before, tuple(range(200)))
