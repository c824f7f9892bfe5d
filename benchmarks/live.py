# SPDX-License-Identifier: GPL-3.0-or-later
"""Turnaround of the live server over loopback: ``python -m benchmarks.live --seconds 600``.

The server runs in a process of its own, as for a user. At 120 Hz a rig sends one training frame and one prediction request
of the 63 -> 24 layout; the turnaround is the time until the prediction arrives. Reported are its distribution, answers out
of order and missing, the memory that the server's process gained after ``--settle`` seconds (until then its replay store
fills), and the time one answer takes the server alone, which a busy computer affects least.

``--before FOLDER`` compares with the server of another checkout, and ``--beside`` measures one client beside five hostile
streams as well: floods of training frames, of predictions and of handshakes, of legs and of wide frames, mixed, or five of
the kinds in ``--hostile``. The servers are measured in turn, some seconds each, so that whatever else the computer does
affects both alike. Printed are the medians over the rounds of p99 alone against before, and of p99 beside the streams against
alone::

    git clone -q . /tmp/before && git -C /tmp/before checkout -q COMMIT
    python -m benchmarks.live --beside --before /tmp/before --rounds 6

Where the system tells (Linux), each turnaround is also given without the time that the server and this client were ready to
run and waited for a processor: ``own`` is what the server itself takes. ``cpu`` is the part of a processor that the server,
the hostile program and this client used, and ``waited`` the part of the time that the server was kept waiting.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from neural_network.core.rotations import quaternion_from_axis_angle
from neural_network.learning.arguments import positive
from neural_network.live import protocol as p
from neural_network.live.axes import ARMATURE
from neural_network.live.channels import encode_inputs
from neural_network.live.client import Client
from neural_network.live.layouts import legs_layout
from neural_network.live.leg_reach import legs_forward
from neural_network.live.server import Server

ROOT = Path(__file__).resolve().parent.parent


def walk(frames: int, rate: float) -> np.ndarray:
    """Wire rows (frames, 63 + 24) of two legs that step on the spot."""
    t = np.arange(frames + 1) / rate
    turns = np.zeros((frames + 1, 6, 3))
    for leg, phase in ((0, 0.0), (3, np.pi)):
        swing = 2 * np.pi * 0.9 * t + phase
        turns[:, leg, 0] = -0.3 + 0.5 * np.sin(swing)
        turns[:, leg + 1, 0] = 0.6 - 0.5 * np.cos(swing)
        turns[:, leg + 2, 0] = 0.2 * np.sin(swing + 1)
        turns[:, leg, 2] = 0.1 * np.sin(0.3 * t + phase)
    local = quaternion_from_axis_angle(turns)
    offsets = np.array([[0.1, 0, 0], [0, -0.44, 0], [0, -0.47, 0.02], [-0.1, 0, 0], [0, -0.44, 0], [0, -0.47, 0.02]])
    old = np.concatenate([np.broadcast_to(offsets, (frames, 6, 3)), local[:-1]], axis=-1).reshape(frames, 42)
    pelvis = np.concatenate(
        [np.zeros((frames, 2)), np.full((frames, 1), 0.9), np.tile([0.7071, 0.7071, 0, 0], (frames, 1))], 1
    )
    inputs = np.concatenate([pelvis, old, np.tile([0, 0, 0, 0, 0, 1, 1.0], (frames, 2))], axis=1)
    _, scene = encode_inputs(legs_layout(), inputs)
    _, feet, turned = legs_forward(scene, local[1:])
    for side in range(2):
        at = 49 + 7 * side
        inputs[:, at : at + 3] = pelvis[:, :3] + feet[:, side] @ scene["frame"][0].T
        inputs[:, at + 3 : at + 6] = turned[:, side, :, 1] @ scene["frame"][0].T
    return np.concatenate([inputs, local[1:].reshape(frames, 24)], axis=1)


def answering(count: int = 2000) -> dict[str, float]:
    """Time of one answer without any waiting: one poll that reads a request, predicts and writes [us]."""
    rows = walk(300, 120)
    server = Server(port=0)
    ours, theirs = socket.socketpair()
    took = []
    try:
        server.attach(theirs, 0.0)
        ours.sendall(p.pack_json(p.HANDSHAKE, {"rig": "rig", "axes": list(ARMATURE), "layout": "legs"}))
        server.poll(0.0)
        for row in rows:
            ours.sendall(p.pack_numbers(p.TRAIN, row))
            server.poll(0.0)
        while any(rig.trainee.hungry for rig in server.rigs.values()):
            server.poll(0.0, 1.0)
        for i in range(count):
            ours.recv(1 << 16)
            ours.sendall(p.pack_numbers(p.PREDICT, rows[i % len(rows)][:63]))
            begin = time.perf_counter()
            server.poll(0.0)
            took.append(1e6 * (time.perf_counter() - begin))
    finally:
        ours.close()
        server.close()
    return {"answer_least_us": round(min(took), 1), "answer_median_us": round(float(np.median(took)), 1)}


def resident(pid: int) -> float:
    """Resident memory of a process [MB]; NaN where the system does not report it."""
    try:
        words = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return float("nan")
    return int(words[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def serving(root: Path, folder: str) -> tuple[subprocess.Popen[str], int]:
    """A server of the checkout ``root`` in a process of its own, and its port."""
    words = [sys.executable, "-m", "neural_network", "serve", "--port", "0", "--json", "--folder", folder]
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    server = subprocess.Popen(words, cwd=root, stdout=subprocess.PIPE, text=True, env={**os.environ, **threads})
    assert server.stdout is not None
    return server, json.loads(server.stdout.readline())["port"]


def introduced(port: int, rig: str) -> Client:
    """A client that has sent its handshake and received the answer."""
    client = Client({"axes": list(ARMATURE), "layout": "legs", "rig": rig}, port=port)
    client.wait(p.HANDSHAKE)
    return client


def measure(seconds: float, rate: float, settle: float, clients: int) -> dict[str, object]:
    """Run the server and clients; returns the figures."""
    rows = walk(1200, rate)
    with tempfile.TemporaryDirectory() as folder:
        server, port = serving(ROOT, folder)
        try:
            made = [introduced(port, f"rig {i}") for i in range(clients)]
            return drive(made, server, rows, seconds, rate, settle) | answering()
        finally:
            server.terminate()
            server.wait()


WIDE = {"name": "p", "kind": "position"}, {"name": "q", "kind": "rotation"}
HOSTILE = {"mixed": ("frames", "frames", "wide", "predictions", "handshakes")} | {
    kind: (kind,) * 5 for kind in ("frames", "wide", "predictions", "handshakes")
}
"""The five streams of ``flood``, of each kind."""


def flood(port: int, seconds: float, kinds: tuple[str, ...]) -> None:
    """Send all that the server takes over five connections at once."""
    legs, wide = walk(60, 120), np.zeros(757)
    wide[3], wide[257:] = 1, np.tile([1, 0, 0, 0], 125)
    numbers = [{"name": f"n{k}", "kind": "number"} for k in range(250)]
    rotations = [{"name": f"o{k}", "kind": "rotation", "space": "parent"} for k in range(125)]
    free = {"axes": list(ARMATURE), "layout": "free", "inputs": [*WIDE, *numbers], "outputs": rotations}
    streams: dict[socket.socket, list[bytes]] = {}
    for i, kind in enumerate(kinds):
        hello = (free if kind in ("wide", "handshakes") else {"axes": list(ARMATURE), "layout": "legs"}) | {
            "rig": f"h{i}"
        }
        made = socket.create_connection(("127.0.0.1", port))
        made.sendall(p.pack_json(p.HANDSHAKE, hello))
        made.setblocking(False)
        part = {
            "frames": b"".join(p.pack_numbers(p.TRAIN, row) for row in legs),
            "wide": p.pack_numbers(p.TRAIN, wide) * 10,
            "predictions": b"".join(p.pack_numbers(p.PREDICT, row[:63]) + p.pack(p.PING) for row in legs),
            "handshakes": b"".join(p.pack_json(p.HANDSHAKE, hello | {"rig": f"h{i} {k}"}) for k in range(50)),
        }[kind]
        streams[made] = [b"", part]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end and streams:
        reading, writing, _ = select.select(list(streams), list(streams), [], 0.1)
        for stream in {*reading, *writing}:
            try:
                if stream in reading and not stream.recv(1 << 18):
                    raise ConnectionResetError
                left, part = streams[stream]
                left = left or part
                streams[stream][0] = left[stream.send(left) :]
            except BlockingIOError:
                pass
            except OSError:
                del streams[stream]


def pause(process: subprocess.Popen[str], paused: bool) -> None:
    """Halt a process, or let it go on, where the system can."""
    if hasattr(signal, "SIGSTOP"):
        process.send_signal(signal.SIGSTOP if paused else signal.SIGCONT)


def scheduled(pid: int | str) -> np.ndarray:
    """(2) [ms] for how long a process has used processors, and has been ready and waited for one; NaN where none tells."""
    try:
        words = Path(f"/proc/{pid}/schedstat").read_text().split()
    except OSError:
        return np.full(2, np.nan)
    return np.array([int(words[0]), int(words[1])]) / 1e6


def compare(
    before: Path | None, hostile: tuple[str, ...], rounds: int, seconds: float, rate: float
) -> dict[str, object]:
    """p99 of one client with each server in turn, alone and beside each kind of ``hostile``; returns figures and ratios."""
    rows = walk(1200, rate)
    roots = {"now": ROOT} | ({"before": before} if before else {})
    found: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        servers = {name: serving(root, f"{folder}/{name}") for name, root in roots.items()}
        try:
            clients = {name: introduced(port, "rig") for name, (_, port) in servers.items()}
            for name, client in clients.items():  # until its trainee is past its first steps
                drive([client], servers[name][0], rows, 5, rate, 0)
            for _ in range(rounds):
                for case in ("alone", *hostile):
                    for name, client in clients.items():
                        server, port = servers[name]
                        for other, (process, _) in servers.items():  # the one that is not measured costs nothing
                            pause(process, other != name)
                        words = [
                            sys.executable,
                            "-m",
                            "benchmarks.live",
                            "--flood",
                            str(port),
                            "--hostile",
                            case,
                            "--seconds",
                            str(seconds + 1),
                        ]
                        flooding = None if case == "alone" else subprocess.Popen(words, cwd=ROOT)
                        time.sleep(1.0)
                        others = {"server": server.pid, "client": "self"}
                        others |= {} if flooding is None else {"hostile": flooding.pid}
                        begin, was = time.perf_counter(), {k: scheduled(pid) for k, pid in others.items()}
                        figures = drive([client], server, rows, seconds, rate, 0)
                        used = {
                            k: (scheduled(pid) - was[k]) / (time.perf_counter() - begin) / 1e3
                            for k, pid in others.items()
                        }
                        row = {k: float(str(figures[k])) for k in ("p99_ms", "p99_own_ms")}
                        row |= {f"{k}_cpu": round(float(part), 2) for k, (part, _) in used.items()}
                        row["server_waited"] = round(float(used["server"][1]), 2)
                        for key, value in row.items():
                            found.setdefault(f"{case} {name}", {}).setdefault(key, []).append(value)
                        if flooding is not None:
                            flooding.wait()
        finally:
            for server, _ in servers.values():
                pause(server, False)
                server.terminate()
                server.wait()
    out: dict[str, object] = {
        "rounds": rounds,
        **{case: {k: _row(v) for k, v in f.items()} for case, f in found.items()},
    }
    pairs = [(f"{case} {name}", f"alone {name}") for case in hostile for name in roots]
    for a, b in [("alone now", "alone before"), *pairs]:
        if a in found and b in found:
            for key, word in (("p99_ms", ""), ("p99_own_ms", ", own")):
                ratio = float(np.median(found[a][key]) / np.median(found[b][key]))
                if np.isfinite(ratio):
                    out[f"{a} / {b}{word}"] = round(ratio, 3)
    return out


def _row(values: list[float]) -> str:
    return " ".join(f"{v:g}" for v in values)


def drive(
    clients: list[Client], server: subprocess.Popen[str], rows: np.ndarray, seconds: float, rate: float, settle: float
) -> dict[str, object]:
    """Send at a steady rate; the first client requests predictions, the others teach rigs of their own."""
    asking = clients[0]
    turnaround: list[float] = []
    waited: list[float] = []
    disorder = missing = late = 0
    newest = 0
    memory: list[tuple[float, float]] = []
    status = ""
    begin = time.perf_counter()
    ticks = int(seconds * rate)
    for tick in range(ticks):
        due = begin + tick / rate
        while (left := due - time.perf_counter()) > 0:
            time.sleep(min(left, 0.001) if left > 0.0015 else 0)
        late += -left > 0.5 / rate
        row = rows[tick % len(rows)]
        for client in clients:
            client.train(row)
        queued = scheduled(server.pid)[1] + scheduled("self")[1]
        sequence = asking.predict(row[:63])
        sent = time.perf_counter()
        answered = False
        for client in clients:
            client.poll()
        while not answered and time.perf_counter() - sent < 1:
            select.select([asking.socket], [], [], 0.1)
            for message in asking.poll():
                if message.type == p.PREDICT:
                    disorder += message.sequence <= newest
                    newest = message.sequence
                    answered |= message.sequence == sequence
                elif message.type == p.TRAIN:
                    found, _ = p.read_status(message.payload)
                    status = f"{found.frames} frames, {found.steps} steps, usual error {found.usual:.4f} rad, state {found.state}"
        turnaround.append(time.perf_counter() - sent)
        waited.append(float(scheduled(server.pid)[1] + scheduled("self")[1] - queued))
        missing += not answered
        if tick % int(rate) == 0:
            memory.append((tick / rate, resident(server.pid)))
            if server.stdout is not None:  # keep the pipe empty
                while select.select([server.stdout], [], [], 0)[0] and server.stdout.readline():
                    pass
    settled = [m for t, m in memory if t >= min(settle, seconds / 2)] or [memory[-1][1]]
    ms = 1e3 * np.array(turnaround)
    own = np.maximum(0, ms - waited)
    return {
        "seconds": round(time.perf_counter() - begin, 1),
        "rate": rate,
        "clients": len(clients),
        "p50_ms": round(float(np.percentile(ms, 50)), 3),
        "p99_ms": round(float(np.percentile(ms, 99)), 3),
        "p99_own_ms": round(float(np.percentile(own, 99)), 3),
        "p99.9_ms": round(float(np.percentile(ms, 99.9)), 3),
        "max_ms": round(float(ms.max()), 3),
        "out_of_order": disorder,
        "missing": missing,
        "ticks_late": late,
        "memory_start_mb": round(memory[0][1], 2),
        "memory_settled_mb": round(settled[0], 2),
        "memory_end_mb": round(settled[-1], 2),
        "growth_mb": round(settled[-1] - settled[0], 2),
        "trainee": status,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=positive(float), default=600)
    parser.add_argument("--rate", type=positive(float), default=120, help="frames a second (%(default)s)")
    parser.add_argument(
        "--settle", type=positive(float, zero=True), default=60, help="seconds before memory is compared (%(default)s)"
    )
    parser.add_argument("--clients", type=positive(int), default=1)
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="another checkout to compare with")
    parser.add_argument("--beside", action="store_true", help="measure one client beside five hostile streams as well")
    parser.add_argument(
        "--hostile", nargs="+", choices=HOSTILE, default=["mixed"], help="kinds of these streams (%(default)s)"
    )
    parser.add_argument("--rounds", type=positive(int), default=6, help="of the comparison (%(default)s)")
    parser.add_argument(
        "--round-seconds", type=positive(float), default=6, help="of each of its measurements (%(default)s)"
    )
    parser.add_argument("--flood", type=positive(int), metavar="PORT", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.flood is not None:
        flood(given.flood, given.seconds, HOSTILE[given.hostile[0]])
    elif given.before is not None or given.beside:
        kinds = tuple(given.hostile) if given.beside else ()
        print(json.dumps(compare(given.before, kinds, given.rounds, given.round_seconds, given.rate), indent=1))
    else:
        print(json.dumps(measure(given.seconds, given.rate, given.settle, given.clients), indent=1))
