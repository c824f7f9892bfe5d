# SPDX-License-Identifier: GPL-3.0-or-later
"""Damaged files of every kind that is read: each must be read, or refused in words, quickly and with little memory.

``python -m tests.fuzz files`` tries 20,000 of them: motion files (BVH, ASF, AMC), poses, targets, weights of today and before
kinds existed, stopped trainings, taught rigs (which are also a character's lessons), tables of roles, characters. What is read
is then used. Memory is the peak of Python's allocator, beyond a fixed allowance for tables that do not grow with the file;
time is CPU time, measured twice more, without that allocator's bookkeeping, if the first was too long.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import shutil
import tempfile
import time
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from . import arrays

COUNT = 20_000
SHIPPED = Path(__file__).resolve().parents[2] / "training_data" / "weights" / "best.npy"
ARRAYS = 64 << 20  # [bytes] of memory that a file of arrays may take whatever its size: what compressed zeros expand to
ODD = Path(__file__).resolve().parents[1] / "odd"
KINDS = ("bvh", "amc", "asf")
MOST_JOINTS = 300  # of a clip whose roles and faults are sought: many of them would take long
SLOWEST = 1.0  # [s of CPU time] for one file
MEMORY = 10  # times the file
ALLOWANCE = 1 << 20  # [bytes] that do not depend on the file: tables, and the buffers of the number reader

WORDS = (
    *(b"HIERARCHY", b"ROOT", b"JOINT", b"End Site", b"OFFSET", b"CHANNELS", b"MOTION", b"Frames:", b"Frame Time:"),
    *(b"{", b"}", b"{{{{", b"}}}}", b"nan", b"-inf", b"1e308", b"-1e-320", b"1e99999", b"0x1F", b"1_000", b"1,5"),
    *(b"1.5-2.3", b"--", b"1.#QNAN", b"-nan(ind)", b"99999999999999999999", b"-1", b"Xposition", b"Zrotation"),
    *(b"CHANNELS 999999999", b"Frames: 999999999", b"Frame Time: -1", b"Frame Time: 1e-300", b"\x00", b"\xff\xfe"),
    *(b"\xef\xbb\xbf", b"\r", b"\r\n", b"\n\n\n", b"\t", b"#", b"//", b";", b"JOINT a { OFFSET 0 0 0 CHANNELS 0 "),
    *(b":root", b":bonedata", b":hierarchy", b"begin", b"end", b"dof rx", b"axis 0 0 0 XYZ", b":RADIANS", b"1\n"),
)


@dataclass
class Outcome:
    """The result of a run."""

    tried: int = 0
    read: int = 0
    refused: int = 0
    slowest: float = 0.0
    most_memory: float = 0.0
    """Largest peak memory, beyond the allowance, as a multiple of the size of the file."""
    reasons: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Kind:
    """A kind of file: sound ones, how to damage them, and how they are read and used."""

    originals: tuple[bytes, ...]
    damage: Callable[[bytes, np.random.Generator], bytes]
    read: Callable[[bytes], tuple[Any, Callable[[Any], object]]]
    """Gives what was read and a function that uses it; refuses with ValueError or OSError."""
    memory: float = MEMORY
    """Times the file."""
    allowance: int = ALLOWANCE


def seeds() -> list[tuple[str, bytes]]:
    """(kind, bytes) of the motion files to damage: the odd ones, and some of 300 KB, for which memory matters."""
    found = [(path.suffix[1:], path.read_bytes()) for path in sorted(ODD.iterdir()) if path.suffix[1:] in KINDS]
    for name in ("01_mixed_rotation_orders.bvh", "03_six_channels_everywhere.bvh", "26_nan_and_inf.bvh"):
        head, rows = re.split(rb"(?<=Frame Time: 0.0333333\n)", (ODD / name).read_bytes().replace(b"\r", b""))
        found.append(("bvh", head + rows * (300_000 // len(rows))))
    return found


def doubtful() -> list[bytes]:
    """Sound BVH files of a walk that need a second look: a sword in the hand, X up, held frames, a trembling foot, milliseconds."""
    from benchmarks.rigs import all_rigs, carrying, walk
    from neural_network.core import rotations
    from neural_network.formats import bvh
    from neural_network.motion.clip import to_z_up

    rig = all_rigs()["kinect"]
    plain = walk(rig)
    turn = to_z_up("X").T @ to_z_up("Y")
    quaternion = np.broadcast_to(rotations.quaternion_from_matrix(turn), plain.rotations.shape)
    turned = rotations.quaternion_multiply(quaternion, plain.rotations)
    turned = rotations.quaternion_multiply(turned, rotations.quaternion_conjugate(quaternion))
    twice = np.repeat(np.arange(plain.frames), 2)
    leg = np.isin(plain.names, [rig.roles[role][0] for role in ("LeftThigh", "LeftShin")])[:, None]
    noise = np.random.default_rng(5).normal(0, 0.03, (plain.frames, len(plain.names), 3)) * leg
    made = [
        walk(carrying(rig, "RightHand", (0, -0.05, 0), (0, -1.1, 0), 3, "Sword")),
        replace(plain, offsets=plain.offsets @ turn.T, root_pos=plain.root_pos @ turn.T, rotations=turned),
        replace(plain, rotations=plain.rotations[twice], root_pos=plain.root_pos[twice], fps=60.0),
        replace(
            plain,
            rotations=rotations.quaternion_multiply(plain.rotations, rotations.quaternion_from_axis_angle(noise)),
        ),
    ]
    texts = []
    with tempfile.TemporaryDirectory(prefix="nik_fuzz_") as folder:
        for clip in made:
            bvh.write(Path(folder) / "a.bvh", clip)
            texts.append((Path(folder) / "a.bvh").read_bytes())
    return [*texts, re.sub(rb"Frame Time:\s*\S+", b"Frame Time: 33.3", texts[0])]


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """The data with one to eight random mutations: cuts, swaps, repeats, flipped bits, other words."""
    for _ in range(int(rng.integers(1, 9))):
        if not data:
            return data
        a, kind = int(rng.integers(0, len(data) + 1)), int(rng.integers(0, 13))
        if kind < 4 or kind == 9:
            data = arrays.damaged_once(data, rng)
        elif kind < 7:
            data = data[:a] + b" " + WORDS[int(rng.integers(len(WORDS)))] + b" " + data[a:]
        elif kind == 7:
            lines = data.split(b"\n")
            i, j = (int(x) for x in rng.integers(0, len(lines), 2))
            lines[i], lines[j] = lines[j], lines[i]
            data = b"\n".join(lines)
        elif kind == 8:
            lines = data.split(b"\n")
            del lines[int(rng.integers(len(lines)))]
            data = b"\n".join(lines)
        elif kind == 10:
            words = data.split(b" ")
            words[int(rng.integers(len(words)))] = WORDS[int(rng.integers(len(WORDS)))]
            data = b" ".join(words)
        elif kind == 11:
            runs = (b" ", b"\n", b"\t", b"{", b"a", b"0", b"-", b".", b"#", b"/", b":", b", ", b"0 ", b"\x83", b"E")
            data = data[:a] + runs[int(rng.integers(len(runs)))] * int(10 ** rng.uniform(1, 5)) + data[a:]
        else:
            data = data.replace(b"\n", (b"\r", b"\r\n", b" ", b"\n\n")[int(rng.integers(4))])
    return data[: 1 << 20]


def motion_kinds(clean: bool = True) -> dict[str, Kind]:
    """The motion files; an .amc is read with a sound skeleton, an .asf with a sound motion."""
    from neural_network.formats import asf_amc, bvh
    from neural_network.motion import cleaning
    from neural_network.motion.clip import Clip
    from neural_network.rigs import rig_body, sanity

    asf, amc = (ODD / "mini.asf").read_bytes(), (ODD / "mini_radians.amc").read_bytes()

    def used(clip: Clip) -> None:
        if clip.frames:
            assert np.isfinite(clip.rotations).all(), "numbers are not finite"
            assert np.isfinite(clip.root_pos).all(), "numbers are not finite"
            assert np.abs(np.linalg.norm(clip.rotations, axis=-1) - 1).max() <= 1e-6, "quaternions are not unit"
        assert np.isfinite(clip.offsets).all(), "offsets are not finite"
        assert clip.fps > 0, "unusable rate"
        assert clip.unit > 0, "unusable unit"
        if clean:
            cleaning.clean(clip)
            if len(clip.names) < MOST_JOINTS:
                sanity.upright(sanity.unit_of_body(clip)[0])
                sanity.find_faults(clip, rig_body.clip_roles(clip))

    def originals(kind: str) -> tuple[bytes, ...]:
        return tuple(data for other, data in seeds() if other == kind)

    japanese = originals("bvh")[0].replace(b"Hips", b"\x83Z\x83\x93")
    return {
        "bvh": Kind((*originals("bvh"), japanese, *doubtful()), mutated, lambda data: (bvh.parse(data, "fuzz"), used)),
        "amc": Kind(originals("amc"), mutated, lambda data: (asf_amc.parse(asf, data), used)),
        "asf": Kind(originals("asf"), mutated, lambda data: (asf_amc.parse(data, amc), used)),
    }


def array_kinds() -> dict[str, Kind]:
    """The files of arrays and of JSON that the project itself writes."""
    from conftest import make_poses, make_rig

    from neural_network.ik import batches, network, targets_file
    from neural_network.ik.context import LAYOUTS, prepare
    from neural_network.learning import loop
    from neural_network.live.trainee import Settings, Trainee
    from neural_network.motion import characters, pose_set
    from neural_network.rigs import roles

    folder = Path(tempfile.mkdtemp(prefix="nik_fuzz_", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rng = np.random.default_rng(0)
    rig = make_rig("reference")
    poses = make_poses(rig, clips=2, frames=6)
    samples = prepare(poses)

    def written(name: str, write: Callable[[Path], object]) -> bytes:
        write(folder / name)
        return (folder / name).read_bytes()

    def reading(name: str, read: Callable[[Path], Any], use: Callable[[Any], object]) -> Callable[[bytes], Any]:
        def call(data: bytes) -> Any:
            (folder / name).write_bytes(data)
            return read(folder / name), use

        return call

    def archive(name: str, write: Callable[[Path], object], read: Callable[[Path], Any], use: Any) -> Kind:
        damage = {".npz": arrays.damaged_archive, ".npy": arrays.damaged_record}.get(
            Path(name).suffix, arrays.damaged_json
        )
        return Kind((written(name, write),), damage, reading(name, read, use), allowance=ARRAYS)

    layout = LAYOUTS["hips"]
    inputs = np.concatenate([rng.normal(size=(8, layout.input_count(rig)))]).astype(np.float32)
    mean = np.zeros(layout.output_count(rig), np.float32)
    net = network.init(rig, layout, (4,), inputs, mean, rng)
    targets, _ = batches.asked(layout, rig, samples, np.arange(3))

    def predict(found: network.Network) -> None:
        if found.layout == layout and found.skeleton.fingerprint == rig.fingerprint:
            batches.predict(found, targets)

    small = Settings(hidden=(4,), batch=4, first_frames=4)

    def trainee() -> Trainee:
        return Trainee(5, [3], small, np.random.default_rng(0))

    taught = trainee()
    for row in rng.normal(size=(20, 8)):
        taught.observe(row[:5], row[5:])
        taught.train(2)

    def taught_from(path: Path) -> Trainee:
        made = trainee()
        made.load(path)
        return made

    def teach(found: Trainee) -> None:
        for row in rng.normal(size=(3, 8)):
            found.observe(row[:5], row[5:])
            found.train(1)
            found.predict(row[:5])

    task, settings = _Line(), loop.LoopSettings(epochs=3)
    state = next(loop.train(task, settings)).state
    identity = loop.identity(task, settings)
    goals = targets_file.of_poses(poses, samples, np.arange(4))
    fields = {
        name: value
        for name in (*targets_file.REQUIRED, *targets_file.OPTIONAL)
        if (value := getattr(goals, name)) is not None
    }
    table = {"roles": {role: rig.names[0] if role == "Hips" else None for role in roles.ROLE_NAMES}}
    character = characters.Character("hero", rig, folder)
    return {
        "poses": archive("a.npz", lambda path: pose_set.save(path, poses), pose_set.load, prepare),
        "targets": archive(
            "t.npz",
            lambda path: np.savez(path, **fields),
            lambda path: targets_file.load(path, rig),
            lambda found: found,
        ),
        "weights": archive("w.npy", lambda path: network.save(path, net), network.load, predict),
        "older weights": Kind(
            (SHIPPED.read_bytes(),), arrays.damaged_record, reading("w.npy", network.load, predict), allowance=ARRAYS
        ),
        "weights as npz": archive("w.npz", lambda path: network.save(path, net), network.load, predict),
        "stopped training": archive(
            "w.resume.npz",
            lambda path: loop.save_state(path, state, identity),
            lambda path: loop.load_state(path, identity),
            lambda found: list(loop.train(task, settings, found)),
        ),
        "taught rig": archive("r.npz", taught.save, taught_from, teach),
        "roles": archive(
            "roles.json",
            lambda path: path.write_text(json.dumps(table)),
            lambda path: roles.load_roles(path, rig.names),
            lambda found: found,
        ),
        "character": archive(
            "character.json",
            lambda path: path.write_text(characters._text(character)),
            lambda path: characters._read.__wrapped__(path, 0, 0),
            lambda found: found,
        ),
    }


class _Line:
    """The smallest of trainings."""

    def initial(self) -> np.ndarray:
        return np.zeros(3, np.float32)

    def batches(self, rng: np.random.Generator) -> list[np.ndarray]:
        return [np.arange(2), np.arange(2)]

    def gradient(self, parameters: Any, rows: Any, rng: Any, position: Any, into: np.ndarray) -> float:
        into[:] = 1 + rng.random(3)
        return 1.0

    def validate(self, parameters: np.ndarray) -> float:
        return float(np.abs(parameters).max())

    def describe(self) -> dict[str, Any]:
        return {}


def outcomes(count: int, seed: int = 0, kinds: dict[str, Kind] | None = None) -> Iterator[Outcome]:
    """Try ``count`` files of ``kinds`` (motion files where absent), yielding the running outcome after each."""
    rng = np.random.default_rng(seed)
    kinds = motion_kinds() if kinds is None else kinds
    outcome = Outcome()
    for kind in kinds.values():
        for data in kind.originals:
            _try(kind, data)  # load codecs and patterns now, so that they count for no file
    for n in range(count):
        name = list(kinds)[int(rng.integers(len(kinds)))]
        kind = kinds[name]
        data = kind.damage(kind.originals[int(rng.integers(len(kind.originals)))], rng)
        label = f"{name} {n} of seed {seed} ({len(data)} bytes)"
        reason, took, peak, failure = _try(kind, data)
        outcome.tried += 1
        if failure:
            outcome.failures.append(f"{label}: {failure}")
        elif reason:
            outcome.refused += 1
            outcome.reasons[reason] += 1
        else:
            outcome.read += 1
        if took > SLOWEST:
            took = min(_seconds(kind, data), _seconds(kind, data))
        memory = max(0, peak - kind.allowance) / max(len(data), 1)
        outcome.slowest, outcome.most_memory = max(outcome.slowest, took), max(outcome.most_memory, memory)
        if took > SLOWEST:
            outcome.failures.append(f"{label}: {took:.1f} s")
        if memory > kind.memory:
            outcome.failures.append(f"{label}: {peak} bytes of memory")
        yield outcome


def _try(kind: Kind, data: bytes) -> tuple[str, float, int, str]:
    """Read one file and use what was read: why it was refused, CPU seconds and peak memory of reading, and what went wrong."""
    tracemalloc.start()
    begin = time.process_time()
    reason = failure = ""
    use: Callable[[Any], object] | None = None
    try:
        found, use = kind.read(data)
    except (ValueError, OSError) as error:
        words = str(error).split(": ", 1)[-1].split()
        reason = " ".join(word for word in words[:5] if word.isalpha()) or "?"
        if not str(error) or "\n" in str(error):
            failure = f"refused with no sentence: {str(error)!r}"
    except Exception:
        failure = traceback.format_exc()
    took, peak = time.process_time() - begin, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    if use is not None:
        try:
            use(found)
        except Exception:
            failure = f"read, but of no use: {traceback.format_exc()}"
    return reason, took, peak, failure


def _seconds(kind: Kind, data: bytes) -> float:
    """CPU seconds of reading a file without an eye on its memory."""
    begin = time.process_time()
    with contextlib.suppress(Exception):
        kind.read(data)
    return time.process_time() - begin


def run(count: int, seed: int, say: Callable[[str], None]) -> list[str]:
    """Try ``count`` files; returns the failures."""
    outcome, begin = Outcome(), time.perf_counter()
    told = 0
    for outcome in outcomes(count, seed, {**motion_kinds(), **array_kinds()}):
        for failure in outcome.failures[told:]:
            say(failure)
        told = len(outcome.failures)
        if outcome.tried % 1000 == 0:
            say(f"{outcome.tried} files, {len(outcome.failures)} failures")
    say(
        f"{outcome.tried} damaged files in {time.perf_counter() - begin:.0f} s: {outcome.read} read, {outcome.refused} refused "
        f"with a message, {len(outcome.failures)} failures"
    )
    say(f"slowest file {outcome.slowest * 1000:.0f} ms, most memory {outcome.most_memory:.1f} times its size")
    for reason, times in outcome.reasons.most_common(12):
        say(f"  {times:6} {reason}")
    return outcome.failures
