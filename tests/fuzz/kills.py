# SPDX-License-Identifier: GPL-3.0-or-later
"""The trainer, the import and the server, killed at any moment: ``python -m tests.fuzz kills``.

Each is forked from this process, which has everything imported already, works on something tiny, and receives SIGKILL,
SIGTERM, SIGINT or SIGHUP: after a random time, or by itself around one of its own writes, renames and removals. Afterwards no
file is damaged, what stood there before is intact unless it was replaced by something whole, other people's files are
untouched, and the exit code names the signal. The next run gives the very bytes of one that was never disturbed, and leaves
nothing behind. POSIX only.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

COUNT = 500
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PATIENCE = 60.0
"""[s] after which a program that was asked to end counts as hanging."""
ODD = Path(__file__).resolve().parents[1] / "odd"
MINE = {"notes.txt": b"mine", ".best.npy.part": b"mine too", "d.npz.tmp": b"and this", ".x.5.part": b"this as well"}
"""Files of the user's, which nobody may touch."""


@dataclass(frozen=True)
class Moment:
    """When and how a program is killed."""

    number: signal.Signals
    after: float = 0.0
    """[s]"""
    call: int = 0
    """Which of its own writes, renames and removals it dies around; 0: none."""
    before: bool = True

    def __str__(self) -> str:
        when = f"{'before' if self.before else 'after'} call {self.call}" if self.call else f"after {self.after:.3f} s"
        return f"{self.number.name} {when}"


@dataclass
class Program:
    """One program under test: its folder, how it is run, and what must be true of its files."""

    name: str
    seconds: float
    """Of a run that nobody disturbs."""
    calls: int
    """Writes, renames and removals of such a run."""
    prepare: Callable[[Path], None]
    start: Callable[[Path], int]
    """Run in the forked process; returns the exit code."""
    check: Callable[[Path], str]
    """After a kill: what is wrong, in words; empty where nothing is."""
    final: Callable[[Path], str]
    """After the next, undisturbed run."""
    meet: Callable[[Path, Path], object] = field(default=lambda folder, log: None)
    """Called in this process while the program runs: somebody who uses it."""
    clean_codes: tuple[int, ...] = (0, 1)


# ---------------------------------------------------------------- running and killing


def forked(start: Callable[[], int], log: Path, moment: Moment | None = None, counted: Path | None = None) -> int:
    """Start a function in a process of its own, with its output in ``log``; returns its process number."""
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    code = 99
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(out, 1)
        os.dup2(out, 2)
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), write_through=True)
        calls = _watched(moment)
        code = start()
        if counted is not None:
            counted.write_text(str(calls[0]))
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        with contextlib.suppress(BaseException):
            traceback.print_exc()
    finally:
        os._exit(code)


def _watched(moment: Moment | None) -> list[int]:
    """Count this process's writes to disk, renames and removals, and die around one of them."""
    calls = [0]

    def wrap(name: str) -> None:
        real = getattr(os, name)

        def call(*args: Any, **settings: Any) -> Any:
            calls[0] += 1
            dies = moment is not None and moment.call == calls[0]
            if dies and moment is not None and moment.before:
                os.kill(os.getpid(), moment.number)
            result = real(*args, **settings)
            if dies and moment is not None and not moment.before:
                os.kill(os.getpid(), moment.number)
            return result

        setattr(os, name, call)

    for name in ("fsync", "replace", "unlink", "rmdir", "mkdir"):
        wrap(name)
    return calls


def ended(process: int) -> int | None:
    """Exit code of a process as a shell gives it, waiting for it; None where it hangs, and it is killed."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def one(program: Program, moment: Moment, folder: Path, log: Path) -> tuple[int | None, str]:
    """Run a program and kill it; its exit code, and what is wrong."""
    process = forked(lambda: program.start(folder), log, moment)
    begin = time.monotonic()
    with contextlib.suppress(OSError):  # it died already
        program.meet(folder, log)
    if not moment.call:
        time.sleep(max(0.0, moment.after - (time.monotonic() - begin)))
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, moment.number)
    elif program.meet is not _nobody:
        time.sleep(0.05)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, moment.number)  # a server does not end by itself
    code = ended(process)
    said = log.read_text(errors="replace") if log.exists() else ""
    allowed = {*program.clean_codes, 128 + moment.number, -moment.number}
    if code is None:
        return code, f"it hangs {PATIENCE:g} s after the signal"
    if "Traceback" in said or code not in allowed:
        return code, f"exit code {code}: {said[-1500:]}"
    touched = [name for name, data in MINE.items() if (folder / name).read_bytes() != data]
    if touched:
        return code, f"the user's {touched} were changed"
    return code, program.check(folder)


def _nobody(folder: Path, log: Path) -> None:
    """Nobody uses the program."""


def leftovers(folder: Path, wanted: set[str]) -> str:
    """What is in a folder beside the files ``wanted`` and the user's, or missing there, in words."""
    found = {path.name for path in folder.iterdir()}
    more, fewer = found - wanted - set(MINE), (wanted | set(MINE)) - found
    return f"left over {sorted(more)}, missing {sorted(fewer)}" if more or fewer else ""


def json_lines(path: Path) -> str:
    """Whether every line of a file is whole JSON, in words."""
    try:
        for line in path.read_bytes().splitlines(keepends=True):
            json.loads(line)
            if not line.endswith(b"\n"):
                return f"{path.name}: a line without its end"
    except FileNotFoundError:
        return ""
    except ValueError as error:
        return f"{path.name}: {error}"
    return ""


# ---------------------------------------------------------------- the programs


def trainer_program(home: Path) -> Program:
    """A training of 12 tiny epochs, whose state is saved after each."""
    from conftest import make_poses, make_rig

    import standalone_trainer
    from neural_network.ik import baselines, network
    from neural_network.learning import card, loop
    from neural_network.motion import pose_set

    loop.SAVE_EVERY = 0.0
    baselines.CONVERGED_STEPS, card.DRAWS = 1, 5  # figures are not what is tried here
    data = home / "data.npz"
    pose_set.save(data, make_poses(make_rig("tentacle"), clips=2, frames=20))

    def words(folder: Path, hidden: str = "8") -> list[str]:
        out = ["--data", str(data), "--weights", str(folder / "best.npy"), "--json", str(folder / "figures.json")]
        out += ["--progress", str(folder / "progress"), "--hidden", hidden, "--epochs", "12", "--patience", "99"]
        return [*out, "--augment", "1", "--no-beside"]

    def start(folder: Path) -> int:
        resume = ["--resume"] if (folder / "best.resume.npz").exists() else []
        return standalone_trainer.main([*words(folder), *resume])

    earlier = home / "earlier"
    earlier.mkdir()
    if ended(forked(lambda: standalone_trainer.main(words(earlier, "4")), home / "log")) not in (0, 1):
        raise RuntimeError((home / "log").read_text())
    old = {name: (earlier / name).read_bytes() for name in ("best.npy", "figures.json")}

    def prepare(folder: Path) -> None:
        for name, content in {**old, **MINE}.items():
            (folder / name).write_bytes(content)

    whole = home / "whole"
    seconds, calls = measured(start, prepare, whole, home / "log")
    wanted = (whole / "best.npy").read_bytes()

    def check(folder: Path) -> str:
        best = (folder / "best.npy").read_bytes()
        if best not in (old["best.npy"], wanted) and network.load(folder / "best.npy").hidden != (8,):
            return "best.npy is of neither training"
        figures = (folder / "figures.json").read_bytes()
        if figures != old["figures.json"] and not json.loads(figures)["tests"]:
            return "figures.json is not whole"
        return json_lines(folder / "progress")

    def final(folder: Path) -> str:
        if (folder / "best.npy").read_bytes() != wanted:
            return "best.npy is not what an undisturbed training gives"
        return check(folder) or leftovers(folder, {"best.npy", "figures.json", "progress"})

    return Program("trainer", seconds, calls, prepare, start, check, final, _nobody)


def import_program(home: Path) -> Program:
    """An import of five short files."""
    from neural_network import __main__ as program
    from neural_network.motion import pose_set

    motion = home / "motion"
    motion.mkdir()
    names = ("01_mixed_rotation_orders", "02_rotation_before_position", "03_six_channels_everywhere", "34_metres")
    for name in (*names, "21_zero_frames"):
        shutil.copy(ODD / f"{name}.bvh", motion)

    def start(folder: Path) -> int:
        return program.main(["import", str(motion), "-o", str(folder / "d.npz"), "--rig", "reference"])

    def prepare(folder: Path) -> None:
        for name, content in {"d.npz": b"an earlier import", **MINE}.items():
            (folder / name).write_bytes(content)

    whole = home / "whole"
    seconds, calls = measured(start, prepare, whole, home / "log")
    wanted = (whole / "d.npz").read_bytes()
    pose_set.load(whole / "d.npz")

    def check(folder: Path) -> str:
        return "" if (folder / "d.npz").read_bytes() in (b"an earlier import", wanted) else "d.npz is of neither import"

    def final(folder: Path) -> str:
        if (folder / "d.npz").read_bytes() != wanted:
            return "d.npz is not what an undisturbed import gives"
        return leftovers(folder, {"d.npz"})

    return Program("import", seconds, calls, prepare, start, check, final, _nobody)


def serve_program(home: Path) -> Program:
    """A server that is taught 20 frames by a client and saves all the time; one rig was taught before."""
    from neural_network import __main__ as program
    from neural_network.live import protocol, rig_store
    from neural_network.live.axes import ARMATURE
    from neural_network.live.client import Client
    from neural_network.live.handshake import read_hello
    from neural_network.live.learner import new_trainee
    from neural_network.live.trainee import Settings

    from .messages import row

    if hasattr(rig_store, "AUTOSAVE_SECONDS"):
        rig_store.AUTOSAVE_SECONDS = 0.02
    hello = {"rig": "hero", "bones": ["Pelvis"], "axes": list(ARMATURE), "layout": "legs"}
    met = read_hello(hello)
    assert met.layout is not None
    layout = met.layout
    frames = {"before": 0, "sent": 0}

    def start(folder: Path) -> int:
        return program.main(["serve", "--port", "0", "--json", "--folder", str(folder)])

    def taught(folder: Path) -> int:
        """Frames that the rig's file knows; -1 where there is none."""
        path = folder / f"{met.fingerprint}.npz"
        if not path.exists():
            return -1
        trainee = new_trainee(layout, Settings(), 0)
        trainee.load(path)
        return trainee.frames

    def meet(folder: Path, log: Path) -> None:
        frames["before"], frames["sent"] = max(taught(folder), 0), 0
        end = time.monotonic() + 5
        port = None
        while port is None and time.monotonic() < end:
            found = re.search(r'"port": (\d+)', log.read_text() if log.exists() else "")
            port = int(found[1]) if found else None
            time.sleep(0.002)
        if port is None:
            return
        client = Client(hello, port=port)
        try:
            for _ in range(4):  # a server drops the oldest of many frames that wait
                for _ in range(5):
                    client.train(row())
                client.ping()
                client.wait(protocol.PING, 2.0)
                frames["sent"] += 5
        except (TimeoutError, ValueError):
            pass
        finally:
            client.close()

    old = home / "old"
    old.mkdir()
    other = new_trainee(layout, Settings(), 1)
    other.save(old / "other.npz")
    earlier = (old / "other.npz").read_bytes()

    def prepare(folder: Path) -> None:
        for name, content in {"other.npz": earlier, **MINE}.items():
            (folder / name).write_bytes(content)

    def check(folder: Path) -> str:
        if (folder / "other.npz").read_bytes() != earlier:
            return "the file of another rig was changed"
        if taught(folder) < (frames["before"] or -1):
            return f"{taught(folder)} frames are saved, and there were {frames['before']}"
        return ""

    def final(folder: Path) -> str:
        found, expected = taught(folder), frames["before"] + frames["sent"]
        if found < expected:
            return f"{found} frames are saved of {expected} that were taught"
        return check(folder) or leftovers(folder, {"other.npz", f"{met.fingerprint}.npz"})

    return Program("serve", 0.4, 6, prepare, start, check, final, meet, (0,))


def measured(
    start: Callable[[Path], int], prepare: Callable[[Path], None], folder: Path, log: Path
) -> tuple[float, int]:
    """Seconds and disk calls of an undisturbed run in ``folder``."""
    folder.mkdir()
    prepare(folder)
    begin = time.monotonic()
    code = ended(forked(lambda: start(folder), log, counted=log.with_name("calls")))
    seconds = time.monotonic() - begin
    if code not in (0, 1):
        raise RuntimeError(log.read_text())
    return seconds, int(log.with_name("calls").read_text())


# ---------------------------------------------------------------- all of them


@contextlib.contextmanager
def workplace() -> Iterator[Path]:
    """A folder for all of it, in memory where there is such a disk."""
    folder = Path(tempfile.mkdtemp(prefix="nik_kills_", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def moments(program: Program, rng: np.random.Generator, most: int) -> list[Moment]:
    """One to three kills, one after the other."""
    out = []
    for _ in range(min(most, int(rng.choice((1, 2, 3), p=(0.6, 0.25, 0.15))))):
        number = SIGNALS[int(rng.choice(4, p=(0.4, 0.25, 0.2, 0.15)))]
        if rng.random() < 0.5:
            out.append(Moment(number, call=int(rng.integers(1, program.calls + 1)), before=bool(rng.integers(2))))
        else:
            out.append(Moment(number, after=float(rng.uniform(0, 1.1 * program.seconds))))
    return out


def run(count: int, seed: int, say: Callable[[str], None]) -> list[str]:
    """Kill ``count`` times; returns the failures."""
    if not hasattr(os, "fork"):
        say("kills: skipped, this system cannot fork")
        return []
    failures: list[str] = []
    codes: Counter[str] = Counter()
    with workplace() as home:
        programs = []
        for make in (trainer_program, import_program, serve_program):
            (home / make.__name__).mkdir()
            programs.append(make(home / make.__name__))
            say(f"{programs[-1].name}: {programs[-1].seconds:.1f} s and {programs[-1].calls} disk calls undisturbed")
        done = trial = 0
        while done < count:
            rng = np.random.default_rng([seed, trial])
            program = programs[int(rng.choice(3, p=(0.4, 0.35, 0.25)))]
            folder, log = home / f"{trial}", home / f"{trial}.log"
            folder.mkdir()
            program.prepare(folder)
            label = f"trial {trial} of seed {seed}, {program.name}"
            for moment in moments(program, rng, count - done):
                done += 1
                label += f", {moment}"
                log.unlink(missing_ok=True)
                code, wrong = _guarded(lambda: one(program, moment, folder, log))  # noqa: B023 - called at once
                codes[f"{program.name} {moment.number.name}: {code}"] += 1
                if wrong:
                    failures.append(f"{label}: {wrong}")
                if done % 50 == 0:
                    say(f"{done} kills, {len(failures)} failures")
            wrong = _guarded(lambda: (0, _last(program, folder, log)))[1]  # noqa: B023
            if wrong:
                failures.append(f"{label}, then undisturbed: {wrong}")
            else:
                shutil.rmtree(folder)
            trial += 1
        for text, times in sorted(codes.items()):
            say(f"  {times:5} {text}")
        say(f"{done} kills in {trial} trials, {len(failures)} failures")
    return failures


def _guarded(what: Callable[[], tuple[int | None, str]]) -> tuple[int | None, str]:
    try:
        return what()
    except Exception:  # a damaged file that a check could not read
        return None, traceback.format_exc()


def _last(program: Program, folder: Path, log: Path) -> str:
    """The next run, which nobody disturbs: what is wrong with it."""
    log.unlink(missing_ok=True)
    process = forked(lambda: program.start(folder), log)
    program.meet(folder, log)
    if program.meet is not _nobody:
        os.kill(process, signal.SIGTERM)  # a server ends when asked to, and saves
    code = ended(process)
    said = log.read_text(errors="replace")
    log.unlink(missing_ok=True)
    if code not in (*program.clean_codes, 143) or "Traceback" in said:
        return f"exit code {code}: {said[-1500:]}"
    return program.final(folder)
