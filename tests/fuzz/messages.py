# SPDX-License-Identifier: GPL-3.0-or-later
"""Hostile clients, packets and files for the live server: ``python -m tests.fuzz messages``.

Each attempt has a seed of its own and is one of ``ATTACKS``: mutated, truncated and shuffled messages, invented handshakes,
floods, bytes that come one by one, sockets that say nothing or close half way, damaged files of rigs, and VMC packets. A tenth
goes to a server that requires a token. Beside them a good client is connected, whose rig was taught, and a second taught rig
waits on disk. After each batch the good client must be answered as ever, and the taught rigs must be what they were, in memory
and on disk. One message may make the server allocate two MiB, at default settings. Floods may make it allocate what rigs that
learn need, and reading a rig's file has its own budget.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import tempfile
import time
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from neural_network.live import protocol as p
from neural_network.live import vmc
from neural_network.live.axes import ARMATURE
from neural_network.live.body import ServedBody
from neural_network.live.handshake import layout_fields, read_hello
from neural_network.live.layouts import legs_layout, positions_layout
from neural_network.live.server import Server

COUNT = 100_000
BATCH = 200
MOST_MEMORY = 2 << 20
"""[bytes] that the server may allocate for one message, for a moment or for good."""
MOST_HELD = 256 << 20
"""[bytes] that it may hold in all: sixteen taught rigs, and what the connections wait with."""
FRAMES = 40
"""Taught to each of the good rigs."""
TOKEN = "a token of many letters"
AXES = list(ARMATURE)
LEGS: dict[str, Any] = {"rig": "hero", "bones": ["Pelvis"], "axes": AXES, "layout": "legs", "watch": True}
FREE: dict[str, Any] = {
    "rig": "free",
    "axes": AXES,
    **layout_fields(positions_layout("Pelvis", ["Foot"], ["Knee", "Calf"])),
}
WIDE: dict[str, Any] = {
    "rig": "wide",
    "axes": AXES,
    "layout": "free",
    "inputs": [
        {"name": "p", "kind": "position"},
        {"name": "q", "kind": "rotation"},
        *({"name": f"n{k}", "kind": "number"} for k in range(250)),
    ],
    "outputs": [{"name": f"o{k}", "kind": "rotation", "space": "parent"} for k in range(125)],
}
GOOD: dict[str, Any] = {"rig": "precious", "axes": AXES, "layout": "legs"}
ASLEEP: dict[str, Any] = {"rig": "precious too", "axes": AXES, "layout": "legs"}
ANY = dict.fromkeys(range(256), (0, 1 << 20))


@dataclass
class Outcome:
    """The result of a run."""

    tried: Counter[str] = field(default_factory=Counter)
    longest_poll_ms: float = 0.0
    longest_kind: str = ""
    most_mib: float = 0.0
    """Allocated because of one attempt."""
    answered_in_words: int = 0
    failures: list[str] = field(default_factory=list)


def row() -> np.ndarray:
    """A frame of the legs layout at rest, inputs and outputs."""
    rest = {"rotation": [1.0, 0, 0, 0], "direction": [0, 0, 1.0], "position": [0, 0, 0.3], "number": [1.0]}
    layout = legs_layout()
    return np.concatenate([rest[c.kind] for c in layout.inputs + layout.outputs])


def wide_row() -> np.ndarray:
    """A frame of the layout ``WIDE``."""
    out = np.zeros(757)
    out[3], out[257:] = 1, np.tile([1.0, 0, 0, 0], 125)
    return out


def hello(value: dict[str, Any]) -> bytes:
    """A handshake as a message."""
    return p.pack_json(p.HANDSHAKE, value)


def body() -> ServedBody:
    """A body of one bone that can be solved."""
    return ServedBody(("Hips",), (-1,), np.zeros((1, 3)), (0,), lambda *_: (np.zeros(3), np.eye(4)[:1], np.zeros(1)))


VALID: list[bytes] = [
    hello(LEGS),
    hello(FREE),
    p.pack_numbers(p.TRAIN, row()),
    p.pack_numbers(p.PREDICT, row()[:63], flags=p.EXACT),
    p.pack_numbers(p.SOLVE, np.array([0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0.0])),
    *(p.pack(p.CONTROL, bytes([code])) for code in (1, 2, 3, 4, 5)),
    p.pack(p.PING, b"1234"),
    p.pack(p.AUTH, bytes(64)),
]


class World:
    """Two servers, one of which requires a token, with good clients beside the hostile ones."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now, self.kind = folder, 0.0, "good clients"
        self.servers = [Server(port=0, body=body(), folder=folder), Server(port=0, body=body(), token=TOKEN)]
        self.outcome = Outcome()
        self.left_open: list[socket.socket] = []
        """Hostile sockets that stay connected."""
        self.receiver = vmc.Receiver(port=0)
        self.good = self.connect(0)
        self.wanted: dict[str, bytes] = {}
        self._teach()

    def connect(self, which: int) -> socket.socket:
        """A new connection to one of the servers."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self.servers[which].attach(theirs, self.now)
        return ours

    def poll(self, which: int, times: int = 1) -> None:
        """Poll a server, and publish a pose."""
        server = self.servers[which]
        for _ in range(times):
            self.now += 0.01
            began = time.perf_counter()
            server.poll(self.now)
            took = 1e3 * (time.perf_counter() - began)
            if took > self.outcome.longest_poll_ms:
                self.outcome.longest_poll_ms, self.outcome.longest_kind = took, self.kind
        server.publish(np.zeros(3), np.eye(4)[:1])

    def ask(self, ours: socket.socket, data: bytes, kind: int, polls: int = 2000) -> p.Message | None:
        """Send to the first server and wait for an answer of that type, or an error; None where it does not come."""
        left, inbox = data, bytearray()
        for _ in range(polls):
            with contextlib.suppress(BlockingIOError):
                left = left[ours.send(left) :] if left else left
            self.poll(0)
            with contextlib.suppress(BlockingIOError):
                inbox += ours.recv(1 << 16)
            for message in p.messages(inbox, ANY):
                if message.type in (kind, p.ERROR):
                    return message
        return None

    def _teach(self) -> None:
        for value in (ASLEEP, GOOD):
            ours = self.good if value is GOOD else self.connect(0)
            self.ask(ours, hello(value), p.HANDSHAKE)
            for i in range(FRAMES):
                frame = row()
                frame[0] = 0.01 * i
                ours.send(p.pack_numbers(p.TRAIN, frame))
                self.poll(0, 4)
            self.ask(ours, p.pack(p.CONTROL, bytes([p.PAUSE])), p.CONTROL)  # from now on it stays as it is
            answer = self.ask(ours, p.pack(p.CONTROL, bytes([p.SAVE])), p.CONTROL)
            assert answer is not None
            assert answer.type == p.CONTROL, answer.payload
            print_ = read_hello(value).fingerprint
            self.wanted[print_] = (self.folder / f"{print_}.npz").read_bytes()
            prediction = self.ask(ours, p.pack_numbers(p.PREDICT, row()[:63]), p.PREDICT)
            assert prediction is not None
            self.wanted[value["rig"]] = prediction.payload
            if value is not GOOD:
                ours.close()

    def learning(self) -> int:
        """How many rigs have begun to learn: what that needs is no matter of a message."""
        return sum(rig.trainee._learns for server in self.servers for rig in server.rigs.values())

    def check(self) -> str:
        """What is not as it should be, empty where everything is."""
        self.poll(0, 3)
        answer = self.ask(self.good, p.pack_numbers(p.PREDICT, row()[:63], sequence=7), p.PREDICT)
        if answer is None or answer.type != p.PREDICT:
            return f"the good client was not answered: {answer}"
        if answer.payload != self.wanted["precious"]:
            return "the good client's rig has changed"
        for name in (read_hello(GOOD).fingerprint, read_hello(ASLEEP).fingerprint):
            path = self.folder / f"{name}.npz"
            if not path.is_file() or path.read_bytes() != self.wanted[name]:
                return f"the file of a taught rig has changed: {name}"
        for _ in range(100):
            again = self.connect(0)
            met = self.ask(again, hello(ASLEEP), p.HANDSHAKE)
            again.close()
            if met is None or b"not saved yet" not in met.payload:
                break
            self.tidy()  # places for sixteen rigs: somebody removes what is in the way of saving the others
            self.now += 30.0
            self.poll(0, 20)
        if met is None or met.type != p.HANDSHAKE or p.read_json(met.payload)["frames"] != FRAMES:
            return f"a taught rig was not found again: {met and met.payload[:300]!r}"
        held, _ = tracemalloc.get_traced_memory()
        return f"the server holds {held / (1 << 20):.0f} MiB" if held > MOST_HELD else ""

    def tidy(self) -> None:
        """Close hostile sockets, and remove the files of hostile rigs, as their owner would once the folder is full."""
        for ours in self.left_open:
            ours.close()
        self.left_open.clear()
        for path in self.folder.iterdir():
            if path.stem.split(".")[0] in self.wanted or path.suffix == ".part":
                continue
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink()

    def close(self) -> None:
        """End everything."""
        self.tidy()
        self.good.close()
        self.receiver.close()
        for server in self.servers:
            with contextlib.suppress(OSError):  # rigs of others, whose place holds a pipe or a folder
                server.close()


# ---- what is sent


def mutated(rng: np.random.Generator) -> bytes:
    """A valid message with one to five bytes changed, mostly in its header."""
    data = bytearray(VALID[int(rng.integers(len(VALID)))])
    reach = 24 if rng.random() < 0.4 else len(data)
    for _ in range(int(rng.integers(1, 6))):
        data[int(rng.integers(min(len(data), reach)))] = int(rng.integers(256))
    return bytes(data)


def shuffled(rng: np.random.Generator) -> bytes:
    """Valid messages in any order, some damaged."""
    parts = [VALID[int(i)] for i in rng.integers(0, len(VALID), int(rng.integers(1, 30)))]
    return b"".join(mutated(rng) if rng.random() < 0.03 else part for part in parts)


def invented(rng: np.random.Generator) -> bytes:
    """A handshake with odd values, or JSON that is none."""
    odd: list[Any] = [None, True, -1, 1e308, "", "x" * 64, "\u202e", [], {}, [[]], 2**64, "a" * 3000, [None] * 300]
    if rng.random() < 0.3:
        texts = (
            b"[" * 30000,
            b'{"rig":' * 4000,
            b"\xff" * 99,
            b"7" * 30000,
            b"[{}," * 8000,
            b'{"a":1e999}',
            b'{"":{},"":[]}',
        )
        return p.pack(p.HANDSHAKE, texts[int(rng.integers(len(texts)))])
    value = dict((LEGS, FREE, WIDE)[int(rng.integers(3))])
    for _ in range(int(rng.integers(0, 4))):
        key = [*value, "threshold", "units", "limbs", "file"][int(rng.integers(len(value) + 4))]
        value[key] = odd[int(rng.integers(len(odd)))]
    if rng.random() < 0.3:
        value["inputs"] = [dict(WIDE["inputs"][int(i)]) for i in rng.integers(0, 252, int(rng.integers(1, 256)))]
    if rng.random() < 0.2:
        limb = {
            "end": "Foot.position",
            "joint": "Knee.position",
            "root": [0, 0, 0],
            "upper": 1,
            "lower": 1,
            "rest": [0, 0, 1],
        }
        value["limbs"] = [limb | {"upper": odd[int(rng.integers(len(odd)))]}] * int(rng.integers(1, 257))
    value["rig"] = f"h{int(rng.integers(1000))}" if rng.random() < 0.7 else value["rig"]
    try:
        data = hello(value)
    except ValueError:  # more than JSON can say
        data = p.pack(p.HANDSHAKE, json.dumps(value).encode())
    return data if len(data) < 24 + p.MOST_HANDSHAKE or rng.random() < 0.1 else data[:24]


def flooding(rng: np.random.Generator) -> bytes:
    """A handshake and many frames, requests or handshakes at once; a few of them not finite."""
    name = {"rig": f"f{int(rng.integers(300))}"}
    kind = int(rng.integers(5))
    if kind == 0:
        return hello(WIDE | name) + p.pack_numbers(p.TRAIN, wide_row()) * int(rng.integers(1, 12))
    if kind == 1:
        return b"".join(hello(LEGS | {"rig": f"e{int(i)}"}) for i in rng.integers(0, 10000, 60))
    frame = row()
    if rng.random() < 0.3:
        frame[int(rng.integers(87))] = (np.nan, np.inf, 1e300, -1e9)[int(rng.integers(4))]
    part = (p.pack_numbers(p.TRAIN, frame), p.pack_numbers(p.PREDICT, frame[:63]), p.pack(p.PING, bytes(64)))[kind - 2]
    return hello(LEGS | name) + part * int(rng.integers(1, 200))


def damaged_file(rng: np.random.Generator, sound: bytes) -> bytes:
    """The file of a rig as a disk or a person might leave it."""
    kind = int(rng.integers(5))
    if kind == 0:
        return rng.bytes(int(rng.integers(0, 3000)))
    if kind == 1:
        return sound[: int(rng.integers(len(sound)))]
    if kind == 2:
        buffer = io.BytesIO()
        heads = (
            b"[]",
            b"{}",
            b"null",
            b'{"format":1}',
            b'{"format":"neural_ik model","version":2,"kind":"live"}',
            b"[" * 999,
        )
        names = ("head", "about", "replay.inputs", "adam.first")
        np.savez(buffer, **{n: np.frombuffer(heads[int(rng.integers(len(heads)))], np.uint8) for n in names})
        return buffer.getvalue()
    data = bytearray(sound)
    for at in rng.integers(0, len(data) if kind == 3 else 400, 8):
        data[int(at)] = int(rng.integers(256))
    return bytes(data)


def vmc_packet(rng: np.random.Generator) -> bytes:
    """A VMC packet, damaged or invented."""
    values = [float(v) for v in rng.standard_normal(7) * 10.0 ** float(rng.integers(-3, 40))]
    with contextlib.suppress(OverflowError):
        good = vmc.osc_message("/VMC/Ext/Bone/Pos", "x" * int(rng.integers(0, 90)), *values)
        data = bytearray(vmc.osc_bundle([good] * int(rng.integers(1, 40))))
        for at in rng.integers(0, len(data), int(rng.integers(0, 9))):
            data[int(at)] = int(rng.integers(256))
        if rng.random() < 0.2:
            data += rng.bytes(int(rng.integers(0, 4000)))
        return bytes(data[: int(rng.integers(1, len(data) + 1))] if rng.random() < 0.3 else data)
    return b"#bundle\0" + bytes(8) + b"\x7f\xff\xff\xff" + rng.bytes(100)


ATTACKS = ("mutated", "truncated", "shuffled", "invented", "flooding", "slow", "silent", "half closed", "file", "vmc")


def attack(world: World, seed: int, trial: int) -> str:
    """Make one attempt; returns its kind."""
    rng = np.random.default_rng([seed, trial])
    kind = ATTACKS[int(rng.integers(len(ATTACKS)))]
    which, world.kind = int(trial % 10 == 9), kind
    if kind == "vmc":
        packet = vmc_packet(rng)
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with contextlib.closing(sender), contextlib.suppress(OSError):  # longer than a datagram may be
            sender.sendto(packet, ("127.0.0.1", world.receiver.port))
        world.receiver.poll()
        return kind
    if kind == "file":
        value = LEGS | {"rig": f"d{int(rng.integers(50))}"}
        place = world.folder / f"{read_hello(value).fingerprint}.npz"
        if rng.random() < 0.1:
            with contextlib.suppress(OSError):
                (place.mkdir if os.name != "posix" or rng.random() < 0.5 else lambda: os.mkfifo(place))()
        elif not place.exists() or place.is_file():
            place.write_bytes(damaged_file(rng, world.wanted[read_hello(GOOD).fingerprint]))
        data, which = hello(value) + VALID[2], 0
    else:
        data = {"invented": invented, "flooding": flooding, "shuffled": shuffled}.get(kind, mutated)(rng)
        if kind in ("truncated", "slow"):
            data = VALID[int(rng.integers(len(VALID)))]
            data = data[: int(rng.integers(1, len(data) + 1))]
        if kind in ("mutated", "truncated", "slow") and rng.random() < 0.5:
            data = VALID[int(rng.integers(2))] + data
    ours = world.connect(which)
    if kind == "silent":
        world.left_open.append(ours)
        world.poll(which)
        return kind
    at = 0
    for _ in range(4 if kind == "slow" else 2):
        end = at + max(1, len(data) // 4) if kind == "slow" else len(data)
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            at += ours.send(data[at:end])
        world.poll(which)
    if kind == "half closed":
        with contextlib.suppress(OSError):
            ours.shutdown(socket.SHUT_WR)
        world.poll(which)
    inbox = bytearray()
    with contextlib.suppress(BlockingIOError, ConnectionResetError):
        inbox += ours.recv(1 << 18)
    kinds = Counter(message.type for message in p.messages(inbox, ANY))
    world.outcome.answered_in_words += kinds[p.ERROR]
    if which and set(kinds) - {p.AUTH, p.ERROR}:
        raise AssertionError(f"served without the token: {dict(kinds)}")
    if rng.random() < 0.1:
        world.left_open.append(ours)
    else:
        ours.close()
    world.poll(which)
    return kind


def attempt(count: int, seed: int, say: Callable[[str], None] = lambda line: None) -> Outcome:
    """Make ``count`` attempts."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        outcome, told = world.outcome, 0
        tracemalloc.start()
        for trial in range(count):
            label = f"attempt {trial} of seed {seed}"
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            kind, learning = "?", world.learning()
            try:
                kind = attack(world, seed, trial)
            except Exception:
                outcome.failures.append(f"{label}: {traceback.format_exc()}")
            used = tracemalloc.get_traced_memory()[1] - before
            outcome.tried[kind] += 1
            if kind not in ("file", "flooding") and world.learning() <= learning:
                outcome.most_mib = max(outcome.most_mib, used / (1 << 20))
                if used > MOST_MEMORY:
                    outcome.failures.append(f"{label} ({kind}): allocated {used / (1 << 20):.1f} MiB")
            if trial % BATCH == BATCH - 1 or trial == count - 1:
                wrong = world.check()
                if wrong:
                    outcome.failures.append(f"after {label}: {wrong}")
                    break
                world.tidy()
                if (trial + 1) % (10 * BATCH) == 0:
                    say(f"{trial + 1} attempts, {len(outcome.failures)} failures")
                    for failure in outcome.failures[told:]:
                        say(failure)
                    told = len(outcome.failures)
        tracemalloc.stop()
        world.close()
        wrong_files = [n for n in world.wanted if len(n) == 32 and not (world.folder / f"{n}.npz").is_file()]
        outcome.failures += [f"seed {seed}: the file of a taught rig is gone at the end: {n}" for n in wrong_files]
    return outcome


def run(count: int, seed: int, say: Callable[[str], None]) -> list[str]:
    """Make ``count`` attempts; returns the failures."""
    outcome = attempt(count, seed, say)
    say(", ".join(f"{times} {kind}" for kind, times in sorted(outcome.tried.items())))
    say(
        f"{outcome.answered_in_words} answered with an error in words; longest poll {outcome.longest_poll_ms:.0f} ms "
        f"({outcome.longest_kind}); "
        f"most memory for one attempt {outcome.most_mib:.2f} MiB"
    )
    return outcome.failures
