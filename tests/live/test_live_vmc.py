# SPDX-License-Identifier: GPL-3.0-or-later
"""VMC: bytes as in the OSC specification, and poses that are the same in both spaces, in both directions."""

from __future__ import annotations

import importlib
import struct
import time

import numpy as np
import pytest

from neural_network.core.rotations import matrix_from_quaternion, quaternion_from_axis_angle, quaternion_multiply
from neural_network.live import vmc
from neural_network.live.axes import UNITY, axes_matrix, convert_quaternions, convert_vectors

NAMES = ("Hips", "Spine", "NeckLower", "NeckUpper", "Head", "LeftThigh", "LeftShin", "Tail")
PARENTS = (-1, 0, 1, 2, 3, 0, 5, 0)


def pose(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offsets, root position and rotations; bones that are not sent are at rest, except the upper neck."""
    rotations = quaternion_from_axis_angle(rng.standard_normal((len(NAMES), 3)))
    rotations[7] = [1, 0, 0, 0]
    return rng.standard_normal((len(NAMES), 3)), rng.standard_normal(3), rotations


def whole(rotations: np.ndarray) -> np.ndarray:
    out = rotations.copy()
    for j, parent in enumerate(PARENTS):
        if parent >= 0:
            out[j] = quaternion_multiply(out[parent], out[j])
    return out


def same_turn(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(matrix_from_quaternion(a) - matrix_from_quaternion(b)).max())


def test_messages_have_the_bytes_of_the_osc_specification() -> None:
    assert vmc.osc_message("/a", 1, 2.0, "abcd") == (
        b"/a\0\0" + b",ifs\0\0\0\0" + struct.pack(">if", 1, 2.0) + b"abcd\0\0\0\0"
    )
    bundle = vmc.osc_bundle([vmc.osc_message("/a", 1), vmc.osc_message("/b")])
    assert bundle[:16] == b"#bundle\0" + bytes(7) + b"\1"
    assert vmc.osc_read(bundle) == [("/a", (1,)), ("/b", ())]
    assert vmc.osc_read(vmc.osc_bundle([bundle, bundle])) == 2 * [("/a", (1,)), ("/b", ())]


def test_a_sent_bone_has_the_same_orientation_in_unitys_space(rng) -> None:
    """Rotate then convert equals convert then rotate, down the whole chain, when sending."""
    offsets, root, rotations = pose(rng)
    messages = vmc.osc_read(vmc.osc_bundle(vmc.vmc_messages(NAMES, PARENTS, offsets, root, rotations, 1.0)))
    sent = {values[0]: np.array(values[1:]) for address, values in messages if address.endswith("Bone/Pos")}
    chain = ["Hips", "Spine", "Neck", "Head"]
    turn = np.array([1.0, 0, 0, 0])
    for name in chain:
        turn = quaternion_multiply(turn, sent[name][[6, 3, 4, 5]])
    to_unity = axes_matrix(UNITY).T
    vector = rng.standard_normal(3)
    ours = matrix_from_quaternion(whole(rotations)[4]) @ vector
    theirs = matrix_from_quaternion(turn) @ convert_vectors(to_unity, vector)
    assert np.abs(convert_vectors(to_unity, ours) - theirs).max() < 1e-6
    assert np.abs(sent["Hips"][:3] - convert_vectors(to_unity, root)).max() < 1e-6
    assert np.abs(sent["Head"][:3] - convert_vectors(to_unity, offsets[3] + offsets[4])).max() < 1e-6
    assert "Tail" not in sent


def test_a_left_hand_raised_forward_is_raised_forward_in_unity() -> None:
    """By hand: our left arm along +X turned about our up (+Z) by -90 degrees points along -Y, forward; in Unity +Z."""
    turn = quaternion_from_axis_angle(np.array([0, 0, -np.pi / 2]))
    theirs = convert_quaternions(axes_matrix(UNITY).T, turn)
    left = np.array([-1.0, 0, 0])  # Unity: the character faces +Z, so its left is -X
    assert np.abs(matrix_from_quaternion(theirs) @ left - [0, 0, 1]).max() < 1e-12


def test_what_is_sent_is_received_again(rng) -> None:
    offsets, root, rotations = pose(rng)
    parts = vmc.vmc_messages(NAMES, PARENTS, offsets, root, rotations, 1.0)
    found: dict = {}
    for packet in vmc.packets(parts):
        assert len(packet) <= vmc.MOST_PACKET
        found |= vmc.read_bones(vmc.osc_read(packet))
    got_root, got = vmc.pose_from_bones(found, NAMES, PARENTS)
    assert got_root is not None
    assert np.abs(got_root - root).max() < 1e-6
    a, b = whole(rotations), whole(got)
    for j in (0, 1, 2, 4, 5, 6):  # the upper neck does not travel: its turn is in the head's
        assert same_turn(a[j], b[j]) < 1e-6


def test_the_root_of_a_foreign_sender_is_added_to_the_hips(rng) -> None:
    turn, hips = quaternion_from_axis_angle(rng.standard_normal((2, 3)))
    place, at = rng.standard_normal((2, 3))
    bones = {"root": (place, turn), "Hips": (at, hips)}
    root, rotations = vmc.pose_from_bones(bones, NAMES, PARENTS)
    assert root is not None
    assert np.allclose(root, place + matrix_from_quaternion(turn) @ at)
    assert same_turn(rotations[0], quaternion_multiply(turn, hips)) < 1e-12


@pytest.mark.slow
def test_hostile_packets_are_refused_and_crash_nothing(rng) -> None:
    good = vmc.osc_bundle(vmc.vmc_messages(NAMES, PARENTS, *pose(rng), 1.0))
    for _ in range(3000):
        data = bytearray(good[: int(rng.integers(len(good)))] if rng.random() < 0.3 else good)
        for _ in range(int(rng.integers(1, 8))):
            if data:
                data[int(rng.integers(len(data)))] = int(rng.integers(256))
        try:
            bones = vmc.read_bones(vmc.osc_read(bytes(data)))
        except ValueError:
            continue
        for place, turn in bones.values():
            assert np.all(np.isfinite(place))
            assert abs(np.linalg.norm(turn) - 1) < 1e-9
    deep = vmc.osc_message("/a", 1)
    for _ in range(50):
        deep = vmc.osc_bundle([deep])
    with pytest.raises(ValueError, match="deep"):
        vmc.osc_read(deep)
    for bad in (b"", b"abc", b"/a", b"\xff\xff\0\0"):
        with pytest.raises(ValueError, match="OSC"):
            vmc.osc_read(bad)


def test_a_pose_is_sent_over_udp_and_invalid_packets_are_counted(rng) -> None:
    receiver = vmc.Receiver(port=0)
    sender = vmc.Sender(port=receiver.port)
    offsets, root, rotations = pose(rng)
    sender._socket.sendto(b"rubbish", ("127.0.0.1", receiver.port))
    sender.send(vmc.vmc_messages(NAMES, PARENTS, offsets, root, rotations, 1.0))
    end = time.monotonic() + 120  # a busy machine may take long; only a failing test waits for it
    while "LeftLowerLeg" not in receiver.bones and time.monotonic() < end:
        receiver.poll()
        time.sleep(0.001)
    got, _ = vmc.pose_from_bones(receiver.bones, NAMES, PARENTS)
    assert got is not None
    assert np.abs(got - root).max() < 1e-6
    assert receiver.refused == 1
    assert not receiver.poll()
    sender.close()
    receiver.close()


def test_poses_are_exchanged_with_python_osc_in_both_directions(rng) -> None:
    try:
        packet_module = importlib.import_module("pythonosc.osc_packet")
        builder = importlib.import_module("pythonosc.osc_message_builder")
    except ImportError as error:
        pytest.skip(f"needs python-osc, which cannot be imported here: {error}")
    offsets, root, rotations = pose(rng)
    sent = {}
    for packet in vmc.packets(vmc.vmc_messages(NAMES, PARENTS, offsets, root, rotations, 1.0)):
        for timed in packet_module.OscPacket(packet).messages:
            if timed.message.address == "/VMC/Ext/Bone/Pos":
                sent[timed.message.params[0]] = np.array(timed.message.params[1:])
    to_unity = axes_matrix(UNITY).T
    turns = convert_quaternions(to_unity, whole(rotations))
    turn = np.array([1.0, 0, 0, 0])
    for j, name in ((0, "Hips"), (1, "Spine"), (2, "Neck"), (4, "Head")):
        turn = quaternion_multiply(turn, sent[name][[6, 3, 4, 5]])
        assert same_turn(turn, turns[j]) < 1e-4
    message = builder.OscMessageBuilder("/VMC/Ext/Bone/Pos")
    for value in ("Hips", 1.0, 2.0, 3.0, 0.0, 1.0, 0.0, 0.0):
        message.add_arg(value)
    place, turn = vmc.read_bones(vmc.osc_read(message.build().dgram))["Hips"]
    assert np.allclose(place, [-1, -3, 2])
    assert np.abs(turn - [0, 0, 0, -1]).max() < 1e-6  # half a turn about up, seen in a mirror
