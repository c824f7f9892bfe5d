# SPDX-License-Identifier: GPL-3.0-or-later
"""Hostile bytes for the live server: ``python -m tests.fuzz messages``.

Every message is sent over a new connection, half of them after a handshake, a tenth to a server that requires a token.
Reported are the longest poll, the most memory that one connection made the server allocate, whether anything was served
without the token, and whether a well-behaved client is served afterwards. An exception of the server is raised here.
"""

from __future__ import annotations

import socket
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from neural_network.live import protocol as p
from neural_network.live.axes import ARMATURE
from neural_network.live.body import ServedBody
from neural_network.live.handshake import layout_fields
from neural_network.live.layouts import legs_layout, positions_layout
from neural_network.live.server import Server
from neural_network.live.trainee import Settings

COUNT = 100_000
TOKEN = "a token of many letters"
LEGS = {"rig": "hero", "bones": ["Pelvis"], "axes": list(ARMATURE), "layout": "legs", "watch": True}
FREE = {"rig": "free", "axes": list(ARMATURE), **layout_fields(positions_layout("Pelvis", ["Foot"], ["Knee", "Calf"]))}


def row() -> np.ndarray:
    """A frame of the legs layout at rest, inputs and outputs."""
    rest = {"rotation": [1.0, 0, 0, 0], "direction": [0, 0, 1.0], "position": [0, 0, 0.3], "number": [1.0]}
    layout = legs_layout()
    return np.concatenate([rest[c.kind] for c in layout.inputs + layout.outputs])


def fuzz(mutated: int, truncated: int, seed: int = 0) -> dict[str, float]:
    """Send that many mutated and truncated messages; returns the figures."""
    rng = np.random.default_rng(seed)
    body = ServedBody(("Hips",), (-1,), np.zeros((1, 3)), (0,), lambda *_: (np.zeros(3), np.eye(4)[:1], np.zeros(1)))
    settings = Settings(hidden=(16,), batch=16)
    servers = [Server(port=0, body=body, settings=settings), Server(port=0, body=body, settings=settings, token=TOKEN)]
    hellos = [p.pack_json(p.HANDSHAKE, hello) for hello in (LEGS, FREE)]
    good = [
        *hellos,
        p.pack_numbers(p.TRAIN, row()),
        p.pack_numbers(p.PREDICT, row()[:63], flags=p.EXACT),
        p.pack_numbers(p.SOLVE, np.array([0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0.0])),
        p.pack(p.CONTROL, b"\2"),
        p.pack(p.PING, b"1234"),
        p.pack(p.AUTH, bytes(64)),
    ]
    longest = most = 0.0
    served = 0
    tracemalloc.start()
    for trial in range(mutated + truncated):
        server = servers[trial % 10 == 9]
        data = bytearray(good[int(rng.integers(len(good)))])
        if trial >= mutated:
            del data[int(rng.integers(len(data))) :]
        else:
            reach = 24 if rng.random() < 0.3 else len(data)
            for _ in range(int(rng.integers(1, 6))):
                data[int(rng.integers(min(len(data), reach)))] = int(rng.integers(256))
        ours, theirs = socket.socketpair()
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        server.attach(theirs, 0.0)
        ours.send((hellos[trial % 2] if rng.random() < 0.5 else b"") + bytes(data))
        for _ in range(2):
            began = time.perf_counter()
            server.poll(0.0)
            server.publish(np.zeros(3), np.eye(4)[:1])
            longest = max(longest, time.perf_counter() - began)
        most = max(most, tracemalloc.get_traced_memory()[1] - before)
        if server.token is not None:
            ours.setblocking(False)
            with_token = bytearray(ours.recv(1 << 16))
            kinds = {m.type for m in p.messages(with_token, dict.fromkeys(range(256), (0, 1 << 20)))}
            served += bool(kinds - {p.AUTH, p.ERROR})
        ours.close()
        server.poll(0.0)
        assert server.clients() == 0
    tracemalloc.stop()
    ours, theirs = socket.socketpair()
    servers[0].attach(theirs, 0.0)
    ours.send(hellos[0] + p.pack_numbers(p.PREDICT, row()[:63], sequence=7))
    for _ in range(3):
        servers[0].poll(0.0)
    answers = list(p.messages(bytearray(ours.recv(1 << 16)), dict.fromkeys(range(256), (0, 1 << 20))))
    ours.close()
    for server in servers:
        server.close()
    return {
        "mutated": mutated,
        "truncated": truncated,
        "longest_poll_ms": 1e3 * longest,
        "most_allocated_mib": most / (1 << 20),
        "served_without_token": served,
        "honest_client_served": float(any(m.type == p.PREDICT and m.sequence == 7 for m in answers)),
    }


def run(count: int, seed: int, say: Callable[[str], None]) -> list[str]:
    """Send ``count`` hostile messages; returns the failures."""
    found = fuzz(count - count // 10, count // 10, seed)
    say(", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in found.items()))
    failures = []
    if found["served_without_token"]:
        failures.append(f"seed {seed}: something was served without the token")
    if not found["honest_client_served"]:
        failures.append(f"seed {seed}: a well-behaved client was not served afterwards")
    if found["most_allocated_mib"] > 2:
        failures.append(f"seed {seed}: one message allocated {found['most_allocated_mib']:.1f} MiB")
    return failures
