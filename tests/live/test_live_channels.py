# SPDX-License-Identifier: GPL-3.0-or-later
"""Channels: world offsets change nothing, decoding inverts encoding, bone lengths are exact, absurd values are refused."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import ROUND_TRIP

from neural_network.core.rotations import (
    geodesic_angle,
    matrix_from_quaternion,
    quaternion_from_axis_angle,
    quaternion_multiply,
)
from neural_network.live.axes import ARMATURE, GODOT, UNITY, axes_matrix, convert_quaternions, convert_vectors
from neural_network.live.channels import decode, encode_inputs, encode_outputs, stray
from neural_network.live.layouts import (
    Channel,
    ChannelLayout,
    TwoBoneLimb,
    groups,
    legs_layout,
    make_layout,
    positions_layout,
)
from neural_network.live.leg_reach import legs_forward

LIMBS = tuple(
    TwoBoneLimb(f"{side}Foot.position", f"{side}Calf.position", (x, -0.05, 0.0), 0.44, 0.47, (0.02, -1.0, 0.1))
    for side, x in (("Left", 0.1), ("Right", -0.1))
)


def turns(rng: np.random.Generator, *layout: int) -> np.ndarray:
    return quaternion_from_axis_angle(rng.standard_normal((*layout, 3)))


def turn(quaternion: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return (matrix_from_quaternion(quaternion) @ vector[..., None])[..., 0]


def legs_rows(rng: np.random.Generator, frames: int) -> tuple[np.ndarray, np.ndarray]:
    """Random poses of two legs: previous and next rotations a small turn apart, the foot's head as its target."""
    pelvis, world = rng.standard_normal((frames, 3)), turns(rng, frames)
    old = quaternion_from_axis_angle(0.5 * rng.standard_normal((frames, 6, 3)))
    new = quaternion_multiply(old, quaternion_from_axis_angle(0.03 * rng.standard_normal((frames, 6, 3))))
    offsets = np.array([[0.1, 0, 0], [0, -0.44, 0], [0, -0.47, 0.02], [-0.1, 0, 0], [0, -0.44, 0], [0, -0.47, 0.02]])
    bones = np.concatenate([np.broadcast_to(offsets, (frames, 6, 3)), old], axis=-1).reshape(frames, 42)
    row = np.concatenate([pelvis, world, bones, np.tile([0, 0, 0, 0, 0, 1, 1.0], (frames, 2))], axis=1)
    _, scene = encode_inputs(legs_layout(), row)
    _, feet, turned = legs_forward(scene, new)
    for side in range(2):
        at = 49 + 7 * side
        row[:, at : at + 3] = pelvis + turn(world, feet[:, side])
        row[:, at + 3 : at + 6] = turn(world, turned[:, side, :, 1])
    return row, new.reshape(frames, 24)


def knee_rows(rng: np.random.Generator, frames: int) -> tuple[np.ndarray, np.ndarray]:
    pelvis, world = rng.standard_normal((frames, 3)), turns(rng, frames)
    inputs, outputs = [pelvis, world], []
    for limb in LIMBS:
        down = np.array([0, -1.0, 0])
        thigh = quaternion_from_axis_angle(0.4 * rng.standard_normal((frames, 3)))
        calf = quaternion_multiply(thigh, quaternion_from_axis_angle(rng.uniform(0.1, 1.5, (frames, 1)) * [1.0, 0, 0]))
        knee = np.array(limb.root) + turn(thigh, limb.upper * down)
        ankle = knee + turn(calf, limb.lower * down)
        inputs += [pelvis + turn(world, ankle), quaternion_multiply(world, calf)]
        outputs.append(pelvis + turn(world, knee))
    return np.concatenate(inputs, axis=1), np.concatenate(outputs, axis=1)


def knee_layout(**options: object) -> ChannelLayout:
    feet, calves = ["LeftFoot", "RightFoot"], ["LeftCalf", "RightCalf"]
    return positions_layout("Pelvis", feet, calves, LIMBS, **options)  # type: ignore[arg-type]


def test_the_legs_layout_has_63_inputs_and_24_outputs() -> None:
    layout = legs_layout()
    assert (layout.input_size, layout.output_size) == (63, 24)
    assert layout.inputs[2] == Channel("LeftThigh.position", "position", "parent")
    assert [c.name for c in layout.outputs][-1] == "RightFoot.rotation.new"


@pytest.mark.parametrize("which", ["legs", "knee"])
def test_decoding_inverts_encoding(rng: np.random.Generator, which: str) -> None:
    layout, (inputs, outputs) = (
        (legs_layout(), legs_rows(rng, 50)) if which == "legs" else (knee_layout(), knee_rows(rng, 50))
    )
    _, scene = encode_inputs(layout, inputs)
    learned = encode_outputs(layout, outputs, scene)
    assert learned.shape == (50, sum(groups(layout)))
    back = decode(layout, learned, scene)
    if which == "legs":
        back, outputs = (matrix_from_quaternion(v.reshape(-1, 4)) for v in (back, outputs))
    assert np.abs(back - outputs).max() < 1e-7


def test_free_layouts_encode_and_decode_every_kind_of_channel(rng: np.random.Generator) -> None:
    kinds = [("position", 3), ("rotation", 4), ("direction", 3), ("number", 1)]
    inputs = [Channel("Root.position", "position"), Channel("Root.rotation", "rotation")]
    outputs = [Channel(f"{k}.{s}", k, s) for s in ("world", "parent") for k, _ in kinds]
    layout = make_layout(inputs, outputs, unit=0.01, xyzw=True)
    row = np.concatenate([100 * rng.standard_normal(3), turns(rng, 1)[0]])
    direction = rng.standard_normal(3)
    direction /= np.linalg.norm(direction)
    out = np.concatenate([50 * rng.standard_normal(3), turns(rng, 1)[0], direction, [0.3]])
    out = np.concatenate([out, out])
    _, scene = encode_inputs(layout, row)
    back = decode(layout, encode_outputs(layout, out, scene), scene)
    for i in (3, 14):
        if back[i : i + 4] @ out[i : i + 4] < 0:
            back[i : i + 4] *= -1
    assert np.abs(back - out).max() < 1e-6


@pytest.mark.parametrize("which", ["legs", "knee"])
def test_a_world_offset_of_ten_kilometres_and_a_turn_about_up_change_nothing(
    rng: np.random.Generator, which: str
) -> None:
    layout, (inputs, outputs) = (
        (legs_layout(), legs_rows(rng, 20)) if which == "legs" else (knee_layout(), knee_rows(rng, 20))
    )
    offset = np.array([1e4, -1e4, 3e3])
    about_up = quaternion_from_axis_angle(np.array([0, 0, 1.3]))

    def moved(channels: tuple[Channel, ...], row: np.ndarray) -> np.ndarray:
        out, at = row.copy(), 0
        for c in channels:
            size = {"position": 3, "rotation": 4, "direction": 3, "number": 1}[c.kind]
            part = slice(at, at + size)
            at += size
            if c.space == "world" and c.kind == "position":
                out[:, part] = turn(about_up, row[:, part]) + offset
            elif c.space == "world" and c.kind == "direction":
                out[:, part] = turn(about_up, row[:, part])
            elif c.space == "world" and c.kind == "rotation":
                out[:, part] = quaternion_multiply(about_up, row[:, part])
        return out

    far_inputs, far_outputs = moved(layout.inputs, inputs), moved(layout.outputs, outputs)
    x, scene = encode_inputs(layout, inputs)
    far_x, far_scene = encode_inputs(layout, far_inputs)
    assert np.abs(far_x - x).max() < 1e-8
    y = encode_outputs(layout, outputs, scene)
    assert np.abs(encode_outputs(layout, far_outputs, far_scene) - y).max() < 1e-8
    guess = y + 0.01 * rng.standard_normal(y.shape)
    expected = moved(layout.outputs, decode(layout, guess, scene))
    assert np.abs(decode(layout, guess, far_scene) - expected).max() < 1e-8


def test_the_units_and_the_quaternion_order_of_the_wire_do_not_matter(rng: np.random.Generator) -> None:
    inputs, _ = legs_rows(rng, 10)
    x, _ = encode_inputs(legs_layout(), inputs)
    other, at = inputs.copy(), 0
    layout = legs_layout(unit=0.01, xyzw=True)
    for c in layout.inputs:
        size = {"position": 3, "rotation": 4, "direction": 3, "number": 1}[c.kind]
        if c.kind == "position":
            other[:, at : at + 3] *= 100
        elif c.kind == "rotation":
            other[:, at : at + 4] = other[:, at : at + 4][:, [1, 2, 3, 0]]
        at += size
    assert np.abs(encode_inputs(layout, other)[0] - x).max() < ROUND_TRIP


def test_limbs_keep_their_bone_lengths_whatever_is_guessed(rng: np.random.Generator) -> None:
    layout = knee_layout()
    inputs, _ = knee_rows(rng, 100)
    _, scene = encode_inputs(layout, inputs)
    knees = decode(layout, rng.standard_normal((100, 6)), scene).reshape(100, 2, 3)
    for i, limb in enumerate(LIMBS):
        hip = inputs[:, :3] + turn(inputs[:, 3:7], np.array(limb.root))
        ankle = inputs[:, 7 + 7 * i : 10 + 7 * i]
        assert np.abs(np.linalg.norm(knees[:, i] - hip, axis=1) - limb.upper).max() < 1e-9
        assert np.abs(np.linalg.norm(knees[:, i] - ankle, axis=1) - limb.lower).max() < 1e-9


def test_a_target_out_of_reach_gives_a_straight_limb_and_no_nan(rng: np.random.Generator) -> None:
    layout = knee_layout()
    inputs, _ = knee_rows(rng, 3)
    inputs[0, 7:10] = inputs[0, :3] + [5.0, 0, 0]
    inputs[1, 7:10] = inputs[1, :3] + turn(inputs[1, 3:7], np.array(LIMBS[0].root))
    x, scene = encode_inputs(layout, inputs)
    knees = decode(layout, np.zeros((3, 6)), scene)
    assert np.all(np.isfinite(x))
    assert np.all(np.isfinite(knees))
    hip = inputs[0, :3] + turn(inputs[0, 3:7], np.array(LIMBS[0].root))
    assert np.isclose(np.linalg.norm(knees[0, :3] - hip), LIMBS[0].upper)


def test_rotations_out_are_unit_and_exact_puts_the_feet_on_their_targets_and_the_soles_along_the_normals(
    rng: np.random.Generator,
) -> None:
    layout = legs_layout()
    inputs, outputs = legs_rows(rng, 100)
    _, scene = encode_inputs(layout, inputs)
    guess = encode_outputs(layout, outputs, scene)
    guess[:, :18] += 0.05 * rng.standard_normal((100, 18))
    plain, exact = (decode(layout, guess, scene, exact=e).reshape(100, 6, 4) for e in (False, True))
    assert np.abs(np.linalg.norm(plain, axis=-1) - 1).max() < 1e-12
    assert np.abs(np.linalg.norm(exact, axis=-1) - 1).max() < 1e-12
    _, true, true_turned = legs_forward(scene, outputs.reshape(100, 6, 4))
    _, feet, turned = legs_forward(scene, plain)
    _, placed, placed_turned = legs_forward(scene, exact)
    assert np.linalg.norm(feet - true, axis=-1).mean() > 0.01
    assert np.linalg.norm(placed - true, axis=-1).max() < 1e-6
    soles = guess[:, 18:].reshape(100, 2, 3, 1)
    along = (placed_turned @ soles)[..., 0]
    assert np.abs(along - (true_turned @ soles)[..., 0]).max() < 1e-6
    assert geodesic_angle(placed_turned, true_turned).mean() < 0.8 * geodesic_angle(turned, true_turned).mean()


def test_before_anything_is_learned_the_feet_are_on_their_targets_and_the_knees_bend_about_their_hinges(
    rng: np.random.Generator,
) -> None:
    layout = legs_layout()
    inputs, outputs = legs_rows(rng, 100)
    _, scene = encode_inputs(layout, inputs)
    answer = decode(layout, np.zeros((100, 24)), scene).reshape(100, 6, 4)
    _, feet, turned = legs_forward(scene, answer)
    _, true, _ = legs_forward(scene, outputs.reshape(100, 6, 4))
    assert np.linalg.norm(feet - true, axis=-1).max() < 1e-6
    old = inputs[:, 7:49].reshape(100, 6, 7)[..., 3:]
    _, _, before = legs_forward(scene, old)
    assert geodesic_angle(turned, before).max() < 1e-7  # the feet look where they looked
    offset = np.array([0, -0.44, 0]), np.array([0, -0.47, 0.02])
    for knee in (1, 4):
        bent = quaternion_multiply(old[:, knee] * [1, -1, -1, -1], answer[:, knee])  # in the calf's axes
        hinge = np.cross(turn(old[:, knee] * [1, -1, -1, -1], np.tile(offset[0], (100, 1))), offset[1])
        assert np.abs(np.cross(bent[:, 1:], hinge)).max() < 1e-7


def test_a_leg_without_length_cannot_be_put_on_a_target(rng: np.random.Generator) -> None:
    inputs, _ = legs_rows(rng, 1)
    inputs[0, 14:17] = 0  # the left calf's place in its thigh
    _, scene = encode_inputs(legs_layout(), inputs[0])
    assert np.all(np.isfinite(decode(legs_layout(), np.zeros(24), scene)))
    with pytest.raises(ValueError, match="longer than"):
        decode(legs_layout(), np.zeros(24), scene, exact=True)


def test_a_disturbed_previous_pose_differs_only_in_its_rotations_and_its_answer_is_the_true_pose(
    rng: np.random.Generator,
) -> None:
    for xyzw in (False, True):
        layout = legs_layout(xyzw=xyzw)
        inputs, outputs = legs_rows(rng, 1)
        row = stray(layout, inputs[0], rng)
        assert row is not None
        changed = np.flatnonzero(row != inputs[0])
        rotations = {7 + 7 * i + k for i in range(6) for k in range(3, 7)}
        assert set(changed) <= rotations
        assert len(changed) > 12
        lengths = np.linalg.norm(row[7:49].reshape(6, 7)[:, 3:], axis=1)
        assert np.allclose(lengths, 1)
    row = stray(legs_layout(), inputs[0], rng)
    assert row is not None
    _, scene = encode_inputs(legs_layout(), row)
    home = decode(legs_layout(), encode_outputs(legs_layout(), outputs[0], scene), scene).reshape(6, 4)
    assert np.abs(matrix_from_quaternion(home) - matrix_from_quaternion(outputs[0].reshape(6, 4))).max() < 1e-9
    assert stray(knee_layout(), inputs[0], rng) is None


@pytest.mark.parametrize(
    ("at", "value", "words"),
    [(0, np.nan, "finite"), (3, np.inf, "finite"), (1, 1e9, "finite"), (0, 1e6, "within 100 m"), (7, 2e5, "within")],
)
def test_absurd_frames_are_refused(rng: np.random.Generator, at: int, value: float, words: str) -> None:
    inputs, _ = legs_rows(rng, 1)
    inputs[0, at] = value
    with pytest.raises(ValueError, match=words):
        encode_inputs(legs_layout(), inputs[0])


def test_quaternions_and_directions_far_from_unit_length_are_refused(rng: np.random.Generator) -> None:
    inputs, outputs = legs_rows(rng, 1)
    _, scene = encode_inputs(legs_layout(), inputs[0])
    for at in (slice(3, 7), slice(10, 14), slice(52, 55)):
        row = inputs[0].copy()
        row[at] = 0
        with pytest.raises(ValueError, match="unit length"):
            encode_inputs(legs_layout(), row)
    with pytest.raises(ValueError, match="unit length"):
        encode_outputs(legs_layout(), 3 * outputs[0], scene)
    with pytest.raises(ValueError, match="expected 24 numbers, got 23"):
        encode_outputs(legs_layout(), outputs[0, :23], scene)


@pytest.mark.parametrize(
    ("inputs", "outputs", "words"),
    [
        ([], [Channel("a", "number")], "first two inputs"),
        ([Channel("p", "position"), Channel("r", "rotation")], [], "at least one output"),
        ([Channel("p", "position"), Channel("r", "rotation")], [Channel("p", "number")], "once"),
        ([Channel("p", "position"), Channel("r", "rotation")], [Channel("o", "colour")], "kind"),
        ([Channel("p", "position", "parent"), Channel("r", "rotation")], [Channel("o", "number")], "first two inputs"),
    ],
)
def test_invalid_layouts_are_refused(inputs: list[Channel], outputs: list[Channel], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_layout(inputs, outputs)


@pytest.mark.parametrize("axes", [ARMATURE, UNITY, GODOT, ("+Y", "+Z", "+X"), ("-Z", "+X", "+Y")])
def test_turning_then_converting_equals_converting_then_turning_both_ways(
    rng: np.random.Generator, axes: tuple
) -> None:
    matrix = axes_matrix(axes)
    for m in (matrix, matrix.T):
        q, v = turns(rng, 20), rng.standard_normal((20, 3))
        there = convert_vectors(m, turn(q, v))
        assert np.abs(turn(convert_quaternions(m, q), convert_vectors(m, v)) - there).max() < 1e-12
    assert np.abs(convert_vectors(matrix.T, convert_vectors(matrix, v)) - v).max() == 0


def test_axes_define_the_facing_and_the_handedness() -> None:
    assert np.array_equal(axes_matrix(ARMATURE), np.eye(3))
    assert np.linalg.det(axes_matrix(UNITY)) < 0
    assert np.linalg.det(axes_matrix(GODOT)) > 0
    forward = convert_vectors(axes_matrix(UNITY), np.array([0, 0, 1.0]))
    assert np.array_equal(forward, [0, -1, 0])
    left = convert_vectors(axes_matrix(GODOT), np.array([1.0, 0, 0]))
    assert np.array_equal(left, [1, 0, 0])
    for bad in (("+X", "+X", "+Z"), ("X", "Y", "Z"), ("+X", "+Y")):
        with pytest.raises(ValueError, match="axes"):
            axes_matrix(bad)
