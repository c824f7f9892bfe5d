# SPDX-License-Identifier: GPL-3.0-or-later
"""What the text of a glTF file tells beside its motion: where its nodes are at rest, and which of them are a person's bones.

VRM animations (.vrma) are such files: their bones are plain nodes, named in the extension VRMC_vrm_animation by what they are.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.files import parse_json, read_bytes
from ..core.rotations import matrix_from_quaternion

_MAGIC, _JSON = b"glTF", b"JSON"
_ROLES = {
    "hips": "Hips",
    "spine": "Spine",
    "chest": "Spine1",
    "upperChest": "Spine2",
    "neck": "NeckLower",
    "head": "Head",
    **{
        f"{side}{part}": f"{side.capitalize()}{role}"
        for side in ("left", "right")
        for part, role in (
            ("Shoulder", "Shoulder"),
            ("UpperArm", "Arm"),
            ("LowerArm", "ForeArm"),
            ("Hand", "Hand"),
            ("UpperLeg", "Thigh"),
            ("LowerLeg", "Shin"),
            ("Foot", "Foot"),
            ("Toes", "ToeBase"),
        )
    },
}
"""A bone of VRM's humanoid -> its role."""
_TO_Z_UP = np.array([[1.0, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])


@dataclass(frozen=True)
class GltfBones:
    """The nodes (N) of a file."""

    names: tuple[str, ...]
    parents: np.ndarray
    """(N) int, -1 for nodes without a parent."""
    rest: np.ndarray
    """(N, 4, 4) at rest, as Blender places its objects: Z up, metres."""
    roles: dict[str, str]
    """Role -> name of the node, where the file says what its bones are; else empty."""


def read(path: Path) -> GltfBones:
    """The nodes of a .glb, .gltf, .vrm or .vrma file.

    Raises ValueError, in words, for a file that is none, OSError if it cannot be opened.
    """
    data = read_bytes(path, "glTF file")
    try:
        found = parse_json(_text(data))
        nodes: list[dict[str, Any]] = found.get("nodes", [])
        parents = np.full(len(nodes), -1)
        for n, node in enumerate(nodes):
            for child in node.get("children", ()):
                parents[child] = n
        own = np.array([_matrix(node) for node in nodes]).reshape(-1, 4, 4)
        world: dict[int, np.ndarray] = {}
        rest = np.array([_world(n, own, parents, world) for n in range(len(nodes))]).reshape(-1, 4, 4)
        names = tuple(str(node.get("name", f"Node_{n}")) for n, node in enumerate(nodes))
        roles = {role: names[n] for role, n in _humanoid(found).items()}
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError, struct.error) as error:
        raise ValueError(f"{path.name}: not a sound glTF file: {' '.join(str(error).split())}") from None
    return GltfBones(names, parents, _TO_Z_UP @ rest @ _TO_Z_UP.T if len(nodes) else rest, roles)


def _text(data: bytes) -> bytes:
    if data[:4] != _MAGIC:
        return data
    size, kind = struct.unpack("<I4s", data[12:20])
    if kind != _JSON:
        raise ValueError("expected its text first")
    return data[20 : 20 + size]


def _matrix(node: dict[str, Any]) -> np.ndarray:
    if "matrix" in node:
        return np.array(node["matrix"], float).reshape(4, 4).T
    out = np.eye(4)
    x, y, z, w = node.get("rotation", (0, 0, 0, 1))
    out[:3, :3] = matrix_from_quaternion(np.array([w, x, y, z], float)) * np.array(node.get("scale", (1, 1, 1)), float)
    out[:3, 3] = node.get("translation", (0, 0, 0))
    return out


def _world(n: int, own: np.ndarray, parents: np.ndarray, known: dict[int, np.ndarray]) -> np.ndarray:
    line = [n]
    while parents[line[-1]] >= 0 and line[-1] not in known:
        line.append(int(parents[line[-1]]))
        if len(line) > len(own):
            raise ValueError("its nodes are their own ancestors")
    for k in reversed(line):
        if k not in known:
            known[k] = own[k] if parents[k] < 0 else known[int(parents[k])] @ own[k]
    return known[n]


def _humanoid(found: dict[str, Any]) -> dict[str, int]:
    """Role -> node, as the extensions of VRM say it, whichever version."""
    extensions = found.get("extensions", {})
    bones: dict[str, Any] = {}
    for name in ("VRMC_vrm_animation", "VRMC_vrm"):
        bones = bones or extensions.get(name, {}).get("humanoid", {}).get("humanBones", {})
    if not bones and "VRM" in extensions:
        bones = {bone["bone"]: bone for bone in extensions["VRM"].get("humanoid", {}).get("humanBones", [])}
    return {_ROLES[bone]: int(entry["node"]) for bone, entry in bones.items() if bone in _ROLES}
