# SPDX-License-Identifier: GPL-3.0-or-later
"""Characters of games: aimed and stepped without targets in the scene."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import REPO

from .conftest import wing
from .test_live_ik import BACK, HIT, census, channels, character, weights

__all__ = ["character", "weights"]  # fixtures


def test_a_body_reaches_its_goals_and_is_released(character: Any) -> None:
    import bpy

    before, held = channels(character), census()
    character.location = (2, 1, 0)
    bpy.context.view_layer.update()
    body = wing("blender.posing.game").Body(character)
    head = np.array(character.matrix_world @ character.pose.bones["RightHand"].head)
    foot = np.array(character.matrix_world @ character.pose.bones["LeftFoot"].head)
    for step in range(1, 11):
        body.aim("RightHand", head + [0, -0.02 * step, 0.01 * step])
        assert body.step().reached.all()
        bpy.context.view_layer.update()
    now = np.array(character.matrix_world @ character.pose.bones["RightHand"].head)
    assert np.linalg.norm(now - head - [0, -0.2, 0.1]) <= HIT
    assert np.linalg.norm(np.array(character.matrix_world @ character.pose.bones["LeftFoot"].head) - foot) <= HIT
    body.free("RightHand")
    body.step()
    bpy.context.view_layer.update()
    assert np.abs(channels(character) - before).max() <= 1e-4, "without goals the pose is the original one"
    body.place(np.array(character.matrix_world @ character.pose.bones["Hips"].head) - [0, 0, 0.1])
    assert body.step().reached.all()
    body.release()
    bpy.context.view_layer.update()
    assert np.abs(channels(character) - before).max() <= BACK
    assert census() == held


def test_an_unknown_effector_is_an_error_that_lists_the_known_ones(character: Any) -> None:
    body = wing("blender.posing.game").Body(character)
    with pytest.raises(ValueError, match=r"expected one of LeftHand, .*, got 'Tail'"):
        body.aim("Tail", (0, 0, 0))


def test_a_loop_passes_the_elapsed_time() -> None:
    times: list[float] = []
    loop = wing("blender.posing.game").Loop(times.append, rate=30)
    assert 0 <= loop.tick() <= 1 / 30
    loop.tick()
    assert times[0] == pytest.approx(1 / 30)
    assert len(loop.seconds) == 2
    with pytest.raises(ValueError, match="above 0"):
        wing("blender.posing.game").Loop(times.append, rate=0)


def test_the_example_runs(character: Any, capsys: pytest.CaptureFixture[str]) -> None:
    import bpy

    runpy.run_path(str(Path(REPO) / "docs" / "game_example.py"))
    assert "3 bodies: median" in capsys.readouterr().out
    assert len([o for o in bpy.data.objects if o.type == "ARMATURE"]) == 4
