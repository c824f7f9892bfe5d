# SPDX-License-Identifier: GPL-3.0-or-later
"""Mutated and truncated motion files: each must be read, or refused with a ValueError, quickly and with little memory.

``python -m tests.fuzz files`` tries 20,000 of them; the test run tries a hundred. Memory is the peak of Python's allocator,
beyond a fixed allowance for tables that do not grow with the file; time is CPU time, measured twice if the first was too
long.
"""

from __future__ import annotations

import contextlib
import re
import time
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

COUNT = 20_000
ODD = Path(__file__).resolve().parents[1] / "odd"
KINDS = ("bvh", "amc", "asf")
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


def seeds() -> list[tuple[str, bytes]]:
    """(kind, bytes) of the files to mutate: the odd ones, and some of 300 KB, for which memory matters."""
    found = [(path.suffix[1:], path.read_bytes()) for path in sorted(ODD.iterdir()) if path.suffix[1:] in KINDS]
    for name in ("01_mixed_rotation_orders.bvh", "03_six_channels_everywhere.bvh", "26_nan_and_inf.bvh"):
        head, rows = re.split(rb"(?<=Frame Time: 0.0333333\n)", (ODD / name).read_bytes().replace(b"\r", b""))
        found.append(("bvh", head + rows * (300_000 // len(rows))))
    return found


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """The data with one to eight random mutations: cuts, swaps, repeats, flipped bits, other words."""
    for _ in range(int(rng.integers(1, 9))):
        if not data:
            return data
        a, b = sorted(int(x) for x in rng.integers(0, len(data) + 1, 2))
        b = min(b, a + int(rng.integers(1, 400)))
        kind = int(rng.integers(0, 13))
        if kind == 0:
            data = data[:a]
        elif kind == 1:
            data = data[:a] + data[b:]
        elif kind == 2:
            data = data[:b] + data[a:b] * int(rng.integers(1, 20)) + data[b:]
        elif kind == 3:
            data = data[:a] + rng.integers(0, 256, max(1, min(b - a, 40)), dtype=np.uint8).tobytes() + data[b:]
        elif kind in (4, 5, 6):
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
        elif kind == 9:
            flipped = bytearray(data)
            for at in rng.integers(0, len(data), 5):
                flipped[int(at)] ^= 1 << int(rng.integers(8))
            data = bytes(flipped)
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


def readers() -> dict[str, Callable[[bytes], object]]:
    """The reader of each kind; an .amc is read with a valid skeleton, an .asf with a valid motion."""
    from neural_network.formats import asf_amc, bvh

    asf, amc = (ODD / "mini.asf").read_bytes(), (ODD / "mini_radians.amc").read_bytes()
    return {
        "bvh": lambda data: bvh.parse(data, "fuzz"),
        "amc": lambda data: asf_amc.parse(asf, data),
        "asf": lambda data: asf_amc.parse(data, amc),
    }


def outcomes(count: int, seed: int = 0, clean: bool = True) -> Iterator[Outcome]:
    """Try ``count`` files, yielding the running outcome after each."""
    from neural_network.motion import cleaning
    from neural_network.motion.clip import Clip

    rng = np.random.default_rng(seed)
    originals, read = seeds(), readers()
    outcome = Outcome()
    for kind, data in [*originals, ("bvh", originals[0][1].replace(b"Hips", b"\x83Z\x83\x93"))]:
        read[kind](data)  # load codecs and patterns now, so that they count for no file
    for n in range(count):
        kind, data = originals[int(rng.integers(len(originals)))]
        data = mutated(data, rng)
        label = f"{kind} {n} of seed {seed} ({len(data)} bytes)"
        tracemalloc.start()
        begin = time.process_time()
        try:
            clip = read[kind](data)
            took = time.process_time() - begin
            peak = tracemalloc.get_traced_memory()[1]
            assert isinstance(clip, Clip)
            if clip.frames:
                if not (np.isfinite(clip.rotations).all() and np.isfinite(clip.root_pos).all()):
                    outcome.failures.append(f"{label}: numbers are not finite")
                if np.abs(np.linalg.norm(clip.rotations, axis=-1) - 1).max() > 1e-6:
                    outcome.failures.append(f"{label}: quaternions are not unit")
            if not (np.isfinite(clip.offsets).all() and clip.fps > 0 and clip.unit > 0):
                outcome.failures.append(f"{label}: unusable skeleton, rate or unit")
            if clean:
                cleaning.clean(clip)
            outcome.read += 1
        except ValueError as error:
            took = time.process_time() - begin
            peak = tracemalloc.get_traced_memory()[1]
            outcome.refused += 1
            words = str(error).split(": ", 1)[-1].split()
            outcome.reasons[" ".join(word for word in words[:5] if word.isalpha())] += 1
        except Exception:
            took, peak = 0.0, 0
            outcome.failures.append(f"{label}: {traceback.format_exc()}")
        tracemalloc.stop()
        outcome.tried += 1
        if took > SLOWEST:
            begin = time.process_time()
            with contextlib.suppress(ValueError):
                read[kind](data)
            took = min(took, time.process_time() - begin)
        memory = max(0, peak - ALLOWANCE) / max(len(data), 1)
        outcome.slowest, outcome.most_memory = max(outcome.slowest, took), max(outcome.most_memory, memory)
        if took > SLOWEST:
            outcome.failures.append(f"{label}: {took:.1f} s")
        if memory > MEMORY:
            outcome.failures.append(f"{label}: {peak} bytes of memory")
        yield outcome


def run(count: int, seed: int, say: Callable[[str], None]) -> list[str]:
    """Try ``count`` files; returns the failures."""
    outcome, begin = Outcome(), time.perf_counter()
    for outcome in outcomes(count, seed):
        if outcome.tried % 1000 == 0:
            say(f"{outcome.tried} files, {len(outcome.failures)} failures")
    say(
        f"{outcome.tried} mutated files in {time.perf_counter() - begin:.0f} s: {outcome.read} read, {outcome.refused} refused "
        f"with a message, {len(outcome.failures)} failures"
    )
    say(f"slowest file {outcome.slowest * 1000:.0f} ms, most memory {outcome.most_memory:.1f} times its size")
    for reason, times in outcome.reasons.most_common(12):
        say(f"  {times:6} {reason}")
    return outcome.failures
