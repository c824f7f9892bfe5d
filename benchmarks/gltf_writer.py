# SPDX-License-Identifier: GPL-3.0-or-later
"""Clips as animation-only glTF files, for tests and benchmarks: nodes without a mesh, and VRM animations (.vrma)."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from neural_network.motion.clip import Clip

HUMANOID = {
    "Hips": "hips",
    "Spine": "spine",
    "Spine1": "chest",
    "Spine2": "upperChest",
    "NeckLower": "neck",
    "Head": "head",
    **{
        f"{side}{role}": f"{side.lower()}{part}"
        for side in ("Left", "Right")
        for role, part in (
            ("Shoulder", "Shoulder"),
            ("Arm", "UpperArm"),
            ("ForeArm", "LowerArm"),
            ("Hand", "Hand"),
            ("Thigh", "UpperLeg"),
            ("Shin", "LowerLeg"),
            ("Foot", "Foot"),
            ("ToeBase", "Toes"),
        )
    },
}
"""Role -> the bone of VRM's humanoid."""


def write(path: Path, clip: Clip, roles: Mapping[str, int] | None = None, rename: bool = False) -> None:
    """Write a Y-up clip in metres. With ``roles`` (role -> joint) it is a VRM animation; ``rename`` calls its nodes by numbers alone."""
    names = [f"n{j}" for j in range(len(clip.names))] if rename else list(clip.names)
    nodes: list[dict[str, Any]] = []
    for j, name in enumerate(names):
        node: dict[str, Any] = {"name": name, "translation": clip.offsets[j].tolist()}
        children = np.flatnonzero(clip.parents == j).tolist()
        nodes.append({**node, "children": children} if children else node)
    blob, views, accessors = bytearray(), [], []

    def accessor(values: np.ndarray, kind: str) -> int:
        data = np.ascontiguousarray(values, "<f4").tobytes()
        views.append({"buffer": 0, "byteOffset": len(blob), "byteLength": len(data)})
        blob.extend(data)
        entry: dict[str, Any] = {
            "bufferView": len(views) - 1,
            "componentType": 5126,
            "count": len(values),
            "type": kind,
        }
        if kind == "SCALAR":
            entry |= {"min": [float(values.min())], "max": [float(values.max())]}
        accessors.append(entry)
        return len(accessors) - 1

    times = accessor(np.arange(clip.frames) / clip.fps, "SCALAR")
    samplers, channels = [], []
    for j in range(len(names)):
        paths = [("rotation", clip.rotations[:, j][:, [1, 2, 3, 0]], "VEC4")]
        if clip.parents[j] < 0:
            paths.append(("translation", clip.root_pos, "VEC3"))
        for what, values, kind in paths:
            samplers.append({"input": times, "output": accessor(values, kind), "interpolation": "LINEAR"})
            channels.append({"sampler": len(samplers) - 1, "target": {"node": j, "path": what}})
    text: dict[str, Any] = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": np.flatnonzero(clip.parents < 0).tolist()}],
        "nodes": nodes,
        "animations": [{"name": clip.name, "samplers": samplers, "channels": channels}],
        "buffers": [{"byteLength": len(blob)}],
        "bufferViews": views,
        "accessors": accessors,
    }
    if roles is not None:
        bones = {HUMANOID[role]: {"node": j} for role, j in roles.items() if role in HUMANOID}
        text["extensionsUsed"] = ["VRMC_vrm_animation"]
        text["extensions"] = {"VRMC_vrm_animation": {"specVersion": "1.0", "humanoid": {"humanBones": bones}}}
    words = json.dumps(text).encode()
    words += b" " * (-len(words) % 4)
    data = bytes(blob) + b"\0" * (-len(blob) % 4)
    out = struct.pack("<4sII", b"glTF", 2, 28 + len(words) + len(data))
    out += struct.pack("<I4s", len(words), b"JSON") + words + struct.pack("<I4s", len(data), b"BIN\0") + data
    path.write_bytes(out)
