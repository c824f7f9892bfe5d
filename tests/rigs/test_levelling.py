# SPDX-License-Identifier: GPL-3.0-or-later
"""Floors that are not level: found from feet that stand, named, and undone."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import rigs
from neural_network.core.rotations import matrix_from_axis_angle, quaternion_from_matrix, quaternion_multiply
from neural_network.formats import bvh, importing
from neural_network.motion.clip import Clip, to_z_up
from neural_network.rigs import levelling
from neural_network.rigs.rig_body import clip_roles

MOCAP = Path(os.environ.get("NIK_MOCAP", "/nowhere")) / "bvh" / "cmu_mb"


def steps(places: int = 10) -> Clip:
    """Somebody who stands for 0.6 s at each place along a curve, and glides to the next in 0.3 s."""
    clip = rigs.walk(rigs.all_rigs()["mixamo"], frames=2)
    way = np.array([[0.6 * n, 0, 1.0 * np.sin(0.9 * n)] for n in range(places)])
    moving = [np.repeat(way[:1], 18, axis=0)]
    for old, new in itertools.pairwise(way):
        moving += [old + np.linspace(0, 1, 9, endpoint=False)[:, None] * (new - old), np.repeat(new[None], 18, axis=0)]
    path = np.concatenate(moving)
    rotations = np.tile([1.0, 0, 0, 0], (len(path), len(clip.names), 1))
    return replace(clip, rotations=rotations, root_pos=clip.offsets[0] + path)


def tilted(clip: Clip, degrees: float) -> Clip:
    """The clip as a camera sees it that is tilted about a level axis."""
    axes = to_z_up(clip.up_axis)
    turn = axes.T @ matrix_from_axis_angle(np.radians([degrees, 0.5 * degrees, 0])) @ axes
    rotations = clip.rotations.copy()
    rotations[:, 0] = quaternion_multiply(
        np.broadcast_to(quaternion_from_matrix(turn), rotations[:, 0].shape), rotations[:, 0]
    )
    return replace(clip, rotations=rotations, root_pos=clip.root_pos @ turn.T)


def drifting(clip: Clip, metres: float) -> Clip:
    axes = to_z_up(clip.up_axis)
    rise = np.linspace(0, metres / clip.unit, clip.frames)[:, None] * (axes.T @ [0, 0, 1.0])
    return replace(clip, root_pos=clip.root_pos + rise)


def test_a_level_floor_is_left_alone() -> None:
    clip = steps()
    slope = levelling.find_slope(clip, clip_roles(clip))
    assert slope.sentence() == ""
    assert levelling.levelled(clip, slope) is clip


@pytest.mark.parametrize("degrees", [4.0, 8.0])
def test_a_tilted_camera_is_found_and_undone(degrees: float) -> None:
    clip = tilted(steps(), degrees)
    slope = levelling.find_slope(clip, clip_roles(clip))
    assert np.degrees(slope.tilt) == pytest.approx(np.hypot(degrees, 0.5 * degrees), abs=0.6)
    assert "tilted by" in slope.sentence()
    assert not slope.drift
    assert levelling.find_slope(levelling.levelled(clip, slope), clip_roles(clip)).sentence() == ""


def test_a_drift_of_height_is_found_and_undone() -> None:
    clip = drifting(steps(), 0.4)
    slope = levelling.find_slope(clip, clip_roles(clip))
    assert "drifts by" in slope.sentence()
    assert slope.rises == pytest.approx(0.4, abs=0.08)
    assert levelling.find_slope(levelling.levelled(clip, slope), clip_roles(clip)).sentence() == ""


def test_an_import_names_a_tilt_and_undoes_it_where_asked() -> None:
    clip = replace(tilted(steps(), 6.0), name="tilted")
    for level, said in ((False, "--level (Level in Blender) undoes it"), (True, "undone")):
        options = importing.ImportOptions(level=level, clean=False)
        ((piece, roles),), _, warnings = importing.pieces_with_roles(Path("tilted.bvh"), clip, options)
        assert any("tilted by" in warning and said in warning for warning in warnings)
        assert (levelling.find_slope(piece, roles).sentence() == "") == level


@pytest.mark.slow
@pytest.mark.skipif(not MOCAP.exists(), reason="needs captured motion (NIK_MOCAP)")
@pytest.mark.parametrize("take", ["02_01", "07_05", "05_13", "02_06"])
def test_captured_takes_are_level_and_a_tilt_put_into_them_is_found(take: str) -> None:
    clip = bvh.read(MOCAP / f"{take}.bvh")
    roles = clip_roles(clip)
    assert levelling.find_slope(clip, roles).sentence() == ""
    if take == "05_13":  # it goes everywhere
        slope = levelling.find_slope(tilted(clip, 6.0), roles)
        assert np.degrees(slope.tilt) == pytest.approx(np.hypot(6, 3), abs=2.0)
