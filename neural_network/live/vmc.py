# SPDX-License-Identifier: GPL-3.0-or-later
"""Poses sent and received as VMC: OSC messages over UDP, which Unity, Unreal, Godot and avatar programs understand.

Sources: the VMC protocol's specification ("Virtual Motion Capture Protocol", versions 2.0 to 2.8) for addresses and
arguments, the OSC 1.0 specification for the bytes. A bone's rotation is relative to its parent in a T-pose whose axes are
all parallel to the world's. The space is Unity's: left-handed, Y up, facing +Z, metres, quaternions (x, y, z, w).

Rotations here are (J, 4) quaternions (w, x, y, z) relative to the parent and to the T-pose, in core axes (left +X, facing
-Y, up +Z), as ``body.wire_pose`` returns them. Only bones with a name in ``HUMANOID`` are sent; the rotation of a bone
between them is added to its child, so that every bone that is sent has the right orientation.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ..core import tree
from ..core.rotations import matrix_from_quaternion, quaternion_conjugate, quaternion_multiply
from .axes import UNITY, axes_matrix, convert_quaternions, convert_vectors

PORT_OUT = 39539
"""The port on which programs that receive VMC usually listen."""
MOST_PACKET = 1400
"""Bytes of a packet to send: within one Ethernet frame, so that packets are not fragmented."""
MOST_READ = 65536
MOST_MESSAGES = 512
"""Messages read from one packet."""
LONGEST_NAME = 64
"""Characters of a bone's name."""
READ_SECONDS = 0.003
"""[s] of reading packets at a time; it may last one packet longer."""

_LIMBS = {
    "Shoulder": "Shoulder",
    "Arm": "UpperArm",
    "ForeArm": "LowerArm",
    "Hand": "Hand",
    "Thigh": "UpperLeg",
    "Shin": "LowerLeg",
    "Foot": "Foot",
    "ToeBase": "Toes",
}
HUMANOID: dict[str, str] = {
    "Hips": "Hips",
    "Spine": "Spine",
    "Spine1": "Chest",
    "Spine2": "UpperChest",
    "NeckLower": "Neck",
    "Head": "Head",
    **{side + ours: side + theirs for side in ("Left", "Right") for ours, theirs in _LIMBS.items()},
}
"""Bone of the reference rig -> its name in VMC (Unity's HumanBodyBones)."""

OscValue = int | float | str
IDENTITY = (1.0, 0.0, 0.0, 0.0)


def osc_message(address: str, *values: OscValue) -> bytes:
    """One OSC message with int32, float32 and string arguments. Raises TypeError for other kinds."""
    tags, data = ",", b""
    for value in values:
        if isinstance(value, str):
            tags, data = tags + "s", data + _padded(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            tags, data = tags + "i", data + struct.pack(">i", value)
        elif isinstance(value, float):
            tags, data = tags + "f", data + struct.pack(">f", value)
        else:
            raise TypeError(f"OSC: expected int, float or str, got {type(value).__name__}")
    return _padded(address) + _padded(tags) + data


def osc_bundle(parts: Sequence[bytes]) -> bytes:
    """Messages in one bundle, to be processed at once."""
    return b"#bundle\0" + struct.pack(">Q", 1) + b"".join(struct.pack(">i", len(part)) + part for part in parts)


def osc_read(packet: bytes) -> list[tuple[str, tuple[OscValue, ...]]]:
    """All messages of a packet, at most ``MOST_MESSAGES``; bundles may be nested four deep.

    Raises ValueError for bytes that are not OSC. An argument of a type that VMC does not use ends its message's list.
    """
    out: list[tuple[str, tuple[OscValue, ...]]] = []
    _read_packet(packet, out, 0)
    return out


def vmc_messages(
    names: Sequence[str],
    parents: Sequence[int],
    offsets: np.ndarray,
    root_pos: np.ndarray,
    rotations: np.ndarray,
    time: float,
    humanoid: Mapping[str, str] = HUMANOID,
) -> list[bytes]:
    """A pose as OSC messages: OK, T, Root/Pos and a Bone/Pos for each bone that ``humanoid`` names.

    ``offsets`` (J, 3) head relative to the parent's in the T-pose [m], ``root_pos`` (3) the root's head [m], ``rotations``
    (J, 4), all in core axes; ``time`` [s].
    """
    matrix = axes_matrix(UNITY).T
    turned = tree.quaternion_products(parents, np.asarray(rotations, np.float64))
    rest = tree.sums(parents, offsets)
    out = [osc_message("/VMC/Ext/OK", 1), osc_message("/VMC/Ext/T", float(time))]
    out.append(osc_message("/VMC/Ext/Root/Pos", "root", 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0))
    for j, parent in _sent_bones(names, parents, humanoid):
        turn = turned[j] if parent < 0 else quaternion_multiply(quaternion_conjugate(turned[parent]), turned[j])
        # relative to the nearest ancestor that is sent, at rest: an avatar has its own proportions and reads the hips only
        position = np.asarray(root_pos) if parent < 0 else rest[j] - rest[parent]
        w, x, y, z = (float(v) for v in convert_quaternions(matrix, turn))
        a, b, c = (float(v) for v in convert_vectors(matrix, position))
        out.append(osc_message("/VMC/Ext/Bone/Pos", humanoid[names[j]], a, b, c, x, y, z, w))
    return out


def packets(parts: Sequence[bytes]) -> Iterator[bytes]:
    """Messages in bundles of at most ``MOST_PACKET`` bytes."""
    held: list[bytes] = []
    size = 16
    for part in parts:
        if held and size + 4 + len(part) > MOST_PACKET:
            yield osc_bundle(held)
            held, size = [], 16
        held.append(part)
        size += 4 + len(part)
    if held:
        yield osc_bundle(held)


def read_bones(
    messages: Sequence[tuple[str, tuple[OscValue, ...]]],
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Bone/Pos messages as VMC name -> (position (3) [m], rotation (4)), in core axes, relative to the parent.

    ``Root/Pos`` is returned as ``root``; of several values of a bone the last counts. Those that are not finite, not of unit
    length or beyond 1 km are skipped.
    """
    rows: dict[str, tuple[float, ...]] = {}
    for address, values in messages:
        if address not in ("/VMC/Ext/Bone/Pos", "/VMC/Ext/Root/Pos") or len(values) < 8:
            continue
        name, *numbers = values[:8]
        if not isinstance(name, str) or len(name) > LONGEST_NAME or any(isinstance(v, str) for v in numbers):
            continue
        rows["root" if address.endswith("Root/Pos") else name] = tuple(float(v) for v in numbers)
    if not rows:
        return {}
    found = np.array(list(rows.values()))  # all at once: a packet may name hundreds of bones
    with np.errstate(over="ignore", invalid="ignore"):
        length = np.linalg.norm(found[:, 3:], axis=1)
        sound = (np.abs(found[:, :3]) <= 1000).all(axis=1) & (length > 0.5) & (length < 2)
    names = [name for name, good in zip(rows, sound, strict=True) if good]
    turns = found[sound][:, [6, 3, 4, 5]] / length[sound, None]
    matrix = axes_matrix(UNITY)
    positions = convert_vectors(matrix, found[sound, :3])
    return dict(zip(names, zip(positions, convert_quaternions(matrix, turns), strict=True), strict=True))


def pose_from_bones(
    bones: Mapping[str, tuple[np.ndarray, np.ndarray]],
    names: Sequence[str],
    parents: Sequence[int],
    humanoid: Mapping[str, str] = HUMANOID,
) -> tuple[np.ndarray | None, np.ndarray]:
    """Root head (3) [m], None where the hips are missing, and rotations (J, 4); missing bones stay at rest.

    Both are in core axes. A bone's rotation is relative to its nearest ancestor that VMC knows.
    """
    rotations = np.zeros((len(names), 4))
    rotations[:, 0] = 1
    root: np.ndarray | None = None
    base, turn = bones.get("root", (np.zeros(3), np.array(IDENTITY)))
    for j, parent in _sent_bones(names, parents, humanoid):
        if humanoid[names[j]] in bones:
            position, rotations[j] = bones[humanoid[names[j]]]
            if parent < 0:
                root = base + matrix_from_quaternion(turn) @ position
                rotations[j] = quaternion_multiply(turn, rotations[j])
    return root, rotations


class Sender:
    """A UDP socket that sends poses and never waits. Without a receiver the packets are lost.

    ``host`` is resolved once, here. Raises OSError where it has no address.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = PORT_OUT) -> None:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        self._to = found[4]
        self._socket = socket.socket(found[0], found[1])
        self._socket.setblocking(False)

    def send(self, parts: Sequence[bytes]) -> None:
        """Send messages in as few packets as possible."""
        for packet in packets(parts):
            try:
                self._socket.sendto(packet, self._to)
            except OSError:  # buffer full, no receiver or no route now: the next pose may get through
                return

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class Receiver:
    """A UDP socket that receives poses; ``poll`` never waits. Loopback unless another ``host`` is given.

    VMC has no authentication: anyone who can reach the port moves the character. Raises OSError where the port is taken.
    """

    def __init__(self, port: int = PORT_OUT, host: str = "127.0.0.1") -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind((host, port))
        except OSError:
            self._socket.close()
            raise
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]
        self.bones: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        """The newest value of each bone."""
        self.refused = 0
        """Packets that were not OSC."""

    def poll(self, most: int = 64) -> bool:
        """Read received packets, at most ``most`` and for ``READ_SECONDS``; True where a bone was updated."""
        changed = False
        end = time.perf_counter() + READ_SECONDS
        for _ in range(most):
            if time.perf_counter() > end:
                break
            try:
                packet = self._socket.recv(MOST_READ)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:  # on Windows: an earlier packet did not arrive
                continue
            try:
                found = read_bones(osc_read(packet))
            except ValueError:
                self.refused += 1
                continue
            for name, value in found.items():
                if name in self.bones or len(self.bones) < 256:
                    self.bones[name] = value
                    changed = True
        return changed

    def close(self) -> None:
        """Free the port."""
        self._socket.close()


def _padded(text: str) -> bytes:
    data = text.encode() + b"\0"
    return data + bytes(-len(data) % 4)


def _read_packet(packet: bytes, out: list[tuple[str, tuple[OscValue, ...]]], depth: int) -> None:
    if packet[:8] != b"#bundle\0":
        if len(out) < MOST_MESSAGES:
            out.append(_read_message(packet))
        return
    if depth > 3:
        raise ValueError("OSC: expected bundles at most four deep")
    at = 16
    while at < len(packet):
        if at + 4 > len(packet):
            raise ValueError("OSC: expected a size in a bundle, got its end")
        (size,) = struct.unpack_from(">i", packet, at)
        if size <= 0 or at + 4 + size > len(packet):
            raise ValueError(f"OSC: expected a size within the bundle, got {size}")
        _read_packet(packet[at + 4 : at + 4 + size], out, depth + 1)
        at += 4 + size


def _read_message(packet: bytes) -> tuple[str, tuple[OscValue, ...]]:
    address, at = _read_text(packet, 0)
    if not address.startswith("/"):
        raise ValueError("OSC: expected an address that begins with '/'")
    if at >= len(packet):
        return address, ()
    tags, at = _read_text(packet, at)
    values: list[OscValue] = []
    for tag in tags[1:]:
        if tag == "s":
            text, at = _read_text(packet, at)
            values.append(text)
        elif tag in "if":
            if at + 4 > len(packet):
                raise ValueError("OSC: expected four bytes of an argument, got the end")
            values.append(struct.unpack_from(">" + tag, packet, at)[0])
            at += 4
        else:
            break
    return address, tuple(values)


def _read_text(packet: bytes, at: int) -> tuple[str, int]:
    end = packet.find(b"\0", at)
    if end < 0:
        raise ValueError("OSC: expected text that ends with a zero byte")
    try:
        return packet[at:end].decode(), end + 4 - end % 4
    except UnicodeDecodeError as error:
        raise ValueError("OSC: expected text in UTF-8") from error


def _sent_bones(names: Sequence[str], parents: Sequence[int], humanoid: Mapping[str, str]) -> Iterator[tuple[int, int]]:
    """Bones that VMC knows, each with its nearest ancestor that VMC knows, -1 for none."""
    for j, name in enumerate(names):
        if name in humanoid:
            parent = parents[j]
            while parent >= 0 and names[parent] not in humanoid:
                parent = parents[parent]
            yield j, int(parent)
