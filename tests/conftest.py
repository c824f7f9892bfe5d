# SPDX-License-Identifier: GPL-3.0-or-later
"""What all tests share: named tolerances, random numbers, motion capture, the command line, and how a run is divided."""

# ruff: noqa: E402 - threads are set before NumPy comes in
from __future__ import annotations

import atexit
import functools
import gc
import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before NumPy: at these sizes more threads only wait for each other

import numpy as np
import pytest

from neural_network.core import forward_kinematics as fk
from neural_network.core import reference_rig, rotations, skeleton
from neural_network.core.skeleton import Skeleton
from neural_network.formats import bvh
from neural_network.motion import pose_set
from neural_network.motion.clip import Clip
from neural_network.motion.pose_set import PoseSet

gc.set_threshold(
    100_000, 50, 100
)  # the trees of rewritten tests are many long-lived objects: a tenth of a run would go to them

REPO = Path(__file__).resolve().parent.parent

if "NIK_TEST_BYTECODE" not in os.environ:  # worker processes inherit the folder from the process that made it
    os.environ["NIK_TEST_BYTECODE"] = tempfile.mkdtemp(prefix="nik_bytecode_")
    atexit.register(shutil.rmtree, os.environ["NIK_TEST_BYTECODE"], ignore_errors=True)

EXACT = 1e-12
"""The same formula in another order, float64: a few dozen roundings of numbers near 1."""

ROUND_TRIP = 1e-9
"""There and back through another representation, float64: near half a turn an arc function costs some digits."""

GRADIENT = 1e-8
"""Relative error of an exact gradient against fourth-order central differences, themselves good to about 1e-10."""

FLOAT32 = 5e-6
"""float32 against float64: 6e-8 a rounding, over a chain of ten or so bones."""

HOST = 1e-5
"""Against Blender, which keeps poses and matrices in float32 and rebuilds one from the other."""


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240711)


@pytest.fixture(scope="session")
def mocap() -> Path:
    """The folder of motion capture files, which is not a part of this repository."""
    named = os.environ.get("NIK_MOCAP")
    if not named or not any(Path(named).glob("*/*")):
        pytest.skip(f"needs motion capture: NIK_MOCAP is {named!r}, expected a folder of files")
    return Path(named)


@functools.cache
def mocap_clip(path: Path) -> Clip:
    """A BVH file of the motion capture, read once for all tests of a process."""
    return frozen(bvh.read(path))


def run_cli(
    *args: str | Path,
    cwd: str | Path | None = None,
    env: dict[str, str] | None = None,
    timeout: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Run this very Python with ``args`` as a user would, by default in the repository's root, with one thread.

    ``env`` adds to the environment. A relative script such as ``standalone_trainer.py`` is found from any ``cwd``.
    All calls of one test run share a folder of compiled bytecode, so that only the first compiles the sources.
    """
    words = [str(REPO / a) if str(a).endswith(".py") and (REPO / a).exists() else str(a) for a in args]
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    settings = {"PYTHONPATH": str(REPO), "PYTHONIOENCODING": "utf-8"}
    settings |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": os.environ["NIK_TEST_BYTECODE"]}
    return subprocess.run(
        [sys.executable, *words],
        cwd=cwd or REPO,
        env={**os.environ, **threads, **settings, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=timeout,
        check=False,
    )


def numeric_gradient(value: Callable[[np.ndarray], float], at: np.ndarray, step: float = 1e-3) -> np.ndarray:
    """Gradient of a scalar function at ``at`` (any shape, float64) by central differences of fourth order."""
    gradient = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        for shift, weight in ((-2, 1), (-1, -8), (1, 8), (2, -1)):
            moved = at.copy()
            moved[index] += shift * step
            gradient[index] += weight * value(moved)
    return gradient / (12 * step)


def counted_calls(work: Callable[[], object]) -> int:
    """How many calls of functions, Python's and C's, ``work`` takes: its cost without a clock."""
    calls, before = 0, sys.getprofile()

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    """Length of the difference over the length of the expected."""
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def random_turns(rng: np.random.Generator, *shape: int, below: float = np.pi) -> np.ndarray:
    """Axis-angles (*shape, 3) [rad] of any direction and of angles up to ``below``."""
    axis = rng.normal(size=(*shape, 3))
    return axis / np.linalg.norm(axis, axis=-1, keepdims=True) * rng.uniform(0, below, (*shape, 1))


def local_of(rig: Skeleton, matrices: np.ndarray) -> np.ndarray:
    """rot_local (..., J, 3) [rad] of pose matrices (..., J, 4, 4) in armature space: armature_matrices backwards."""
    out = np.empty((*matrices.shape[:-2], 3))
    for j, parent in enumerate(rig.parents):
        rest, posed = rig.rest_arm[j, :3, :3], matrices[..., j, :3, :3]
        if parent >= 0:
            rest = rig.rest_arm[parent, :3, :3].T @ rest
            posed = np.swapaxes(matrices[..., parent, :3, :3], -1, -2) @ posed
        out[..., j, :] = rotations.axis_angle_from_matrix(rest.T @ posed)
    return out


def restyled(rig: Skeleton, turn: np.ndarray, rolls: np.ndarray, rest_pose: np.ndarray) -> Skeleton:
    """The same body as another rig: turned in the world by ``turn`` (3, 3), every bone's axes by ``rolls`` (J, 3, 3) on the
    right, resting in the pose ``rest_pose`` (J, 3) of ``rig``; its T-pose is that of ``rig``."""
    head = rig.rest_arm[0, :3, 3]
    rest, straight = (restyle(fk.armature_matrices(rig, p, head), turn, rolls) for p in (rest_pose, rig.t_pose))
    names = ([rig.names[e] for e in rig.effectors], [rig.names[f] for f in rig.feet])
    bare = skeleton.make(rig.names, rig.parents, rest, *names, t_pose=np.zeros((rig.count, 3)))
    return skeleton.make(rig.names, rig.parents, rest, *names, t_pose=local_of(bare, straight), limits=rig.limits)


def restyle(matrices: np.ndarray, turn: np.ndarray, rolls: np.ndarray) -> np.ndarray:
    """Pose matrices (..., J, 4, 4) as those of a :func:`restyled` rig in the same pose."""
    out = matrices.copy()
    out[..., :3, 3] = matrices[..., :3, 3] @ turn.T
    out[..., :3, :3] = turn @ matrices[..., :3, :3] @ rolls
    return out


def tree(bones: dict[str, tuple[str, tuple[float, float, float]]], effectors: str, feet: str = "") -> Skeleton:
    """A rig from ``name: (parent, rest head [m])``, every bone pointing to its first child, or on as its parent does."""
    names = list(bones)
    parents = np.array([names.index(parent) if parent else -1 for parent, _ in bones.values()])
    heads = np.array([head for _, head in bones.values()], float)
    rest = np.tile(np.eye(4), (len(names), 1, 1))
    for j in range(len(names)):
        children = np.flatnonzero(parents == j)
        along = heads[children[0]] - heads[j] if len(children) else heads[j] - heads[parents[j]]
        rest[j, :3, :3], rest[j, :3, 3] = reference_rig.rest_orientation(along), heads[j]
    return skeleton.make(names, parents, rest, effectors.split(), feet.split())


def frozen(value: Any) -> Any:
    """A dataclass whose arrays can be read only, so that tests can share it."""
    for field in fields(value):
        part = getattr(value, field.name)
        if isinstance(part, np.ndarray):
            part.setflags(write=False)
        elif isinstance(part, Skeleton):
            frozen(part)
    return value


@functools.cache
def make_rig(name: str) -> Skeleton:
    """One of :data:`RIGS`, the same object for every test: a human in several rest poses, a creature and a tentacle."""
    return frozen(new_rig(name))


def new_rig(name: str) -> Skeleton:
    """:func:`make_rig` without its memory."""
    rng = np.random.default_rng(5)
    body = reference_rig.reference()
    if name == "reference":
        return body
    if name == "a_pose":  # arms hang 50 degrees, and the rig must find its T-pose itself
        down = np.zeros((body.count, 3))
        for bone, sign in (("LeftArm", 1), ("RightArm", -1)):
            orientation = body.rest_arm[body.names.index(bone), :3, :3]
            down[body.names.index(bone)] = orientation.T @ [0, sign * np.radians(50), 0]
        rest = fk.armature_matrices(body, down, body.rest_arm[0, :3, 3])
        names = ([body.names[e] for e in body.effectors], [body.names[f] for f in body.feet])
        return skeleton.make(body.names, body.parents, rest, *names, limits=body.limits)
    if name == "turned":  # faces +X, bones rolled at random, rests in any pose at all
        rolls = rotations.matrix_from_axis_angle(random_turns(rng, body.count))
        facing_x = rotations.matrix_from_axis_angle(np.array([0, 0, np.pi / 2]))
        return restyled(
            body, facing_x, rolls, random_turns(rng, body.count, below=0.5) * (np.arange(body.count) > 0)[:, None]
        )
    if name == "creature":
        legs = {
            f"{end}{side}{part}": (parent if part == "Leg" else f"{end}{side}{before}", (x, y, z))
            for end, y0, parent in (("Fore", -0.5, "Chest"), ("Hind", 0.0, "Body"))
            for side, x in (("L", 0.2), ("R", -0.2))
            for part, before, y, z in (("Leg", "", y0, 0.8), ("Shin", "Leg", y0 + 0.05, 0.4), ("Paw", "Shin", y0, 0.05))
        }
        trunk = {"Body": ("", (0, 0, 0.9)), "Chest": ("Body", (0, -0.4, 0.9)), "Skull": ("Chest", (0, -0.7, 1.1))}
        return tree(
            {**trunk, **legs}, "ForeLPaw ForeRPaw HindLPaw HindRPaw Skull", "ForeLPaw ForeRPaw HindLPaw HindRPaw"
        )
    return tree({"A": ("", (0, 0, 0)), "B": ("A", (0.3, 0, 0.1)), "C": ("B", (0.5, 0, 0.4))}, "C")


RIGS = ("reference", "a_pose", "turned", "creature", "tentacle")


def slow_except(values: Iterable[Any], *quick: Any) -> list[Any]:
    """``values`` as parameters of a test, marked slow but for those in ``quick``."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.slow) for value in values]


def make_poses(rig: Skeleton, clips: int = 4, frames: int = 40, seed: int = 3) -> PoseSet:
    """Smooth made-up motion: every bone swings about the T-pose, the Hips wander and turn, feet near the floor."""
    rng = np.random.default_rng(seed)
    sway = 0.35 * rng.normal(size=(3, rig.count, 3))  # three poses that all clips are mixed from
    rot, root_pos = [], []
    for _ in range(clips):
        time = np.arange(frames)[:, None] / 30
        mix = np.sin(2 * np.pi * (time * rng.uniform(0.3, 1.2, 3) + rng.random(3)))
        core = np.einsum("fk,kjc->fjc", mix, sway) + 0.05 * rng.normal(size=(rig.count, 3))
        heading = np.zeros((frames, 3))
        heading[:, 2] = rng.uniform(-3, 3) + 0.5 * time[:, 0]
        hips = rotations.matrix_from_axis_angle(heading) @ rotations.matrix_from_axis_angle(0.4 * core[:, 0])
        core[:, 0] = rotations.axis_angle_from_matrix(hips)
        place = rig.rest_core[0, :3, 3] + rig.leg_length * np.column_stack([time, 0.3 * time, 0.05 * mix[:, 0]])
        rot.append(rig.from_core(core))
        root_pos.append(place @ rig.axes)
    names = ["walk", "reach_up", "jump", "kick", "idle", "dance", "crouch", "thing"][:clips]
    names += [f"clip{i}" for i in range(len(names), clips)]
    of_clip = np.repeat(np.arange(clips), frames)
    return pose_set.make(rig, np.concatenate(rot), np.concatenate(root_pos), of_clip, names)


QUICK = "not slow and not host and not window and not learning"
"""The marker expression of a plain ``python -m pytest``; it stands in pyproject.toml."""

MEMORY = Path("/dev/shm")
"""A file system in memory, on Linux. On a slow disk, removing the temporary files takes as long as the quick tests."""

MOST_PROCESSES = 4
"""More spend longer on importing and collecting than they save."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import the test files of a folder whose tests are all left out."""
    left_out = {REPO / "tests" / name for name in ("host", "window") if f"not {name}" in config.option.markexpr}
    torch = collection_path.name.startswith("test_torch_") and "not learning" in config.option.markexpr
    return True if torch or collection_path in left_out else None


def pytest_configure(config: pytest.Config) -> None:
    """In a run without host tests, let no test import bpy, and keep temporary files in memory where there is plenty."""
    if without_host(config):
        sys.modules.setdefault("bpy", None)  # type: ignore[arg-type]  # importing it raises ImportError
        if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 1 << 30:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def without_host(config: pytest.Config) -> bool:
    """Whether the marker expression of this run leaves the host tests out."""
    return "not host" in config.option.markexpr


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads its option
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Divide a run of the whole suite among processes, where pytest-xdist is installed; each has a Blender of its own.

    A run of named files, one with a debugger and one that opens windows stay in one process. ``-n`` on the command line
    overrides all this.
    """
    option = config.option
    if hasattr(config, "workerinput") or getattr(option, "numprocesses", 0) is not None:  # a worker, no xdist, or -n
        return
    whole = config.args_source is not pytest.Config.ArgsSource.ARGS
    windows = "not window" not in option.markexpr and not importlib.import_module("window.launch").missing()
    alone = option.usepdb or option.collectonly or windows
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if whole and not alone and processors > 1:
        option.numprocesses = min(processors, MOST_PROCESSES)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say that the quick run is not everything."""
    if config.option.markexpr == QUICK:
        terminalreporter.write_line(
            'Quick run: without tests marked slow, host, window or learning; -m "" runs everything.'
        )


NEEDS = (
    (
        "host",
        "bpy",
        "NIK_REQUIRE_HOST",
        "on Debian it needs libxi6 libxxf86vm1 libxfixes3 libxrender1 libxkbcommon0 libsm6 libgl1",
    ),
    ("learning", "torch", "NIK_REQUIRE_TORCH", "pip install -r requirements/learning.txt"),
)
"""Marker, the module that such tests need, the variable that makes its absence an error, and a hint."""


@pytest.hookimpl(
    trylast=True
)  # after the marker expression has taken its pick: a run without host tests imports no bpy
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is marked ``host`` or ``learning`` where its module is missing; an error where its variable is 1."""
    for marker, module, variable, hint in NEEDS:
        marked = [item for item in items if item.get_closest_marker(marker)]
        try:
            if marked:
                importlib.import_module(module)
        except Exception as error:  # a missing system library shows in many ways
            if os.environ.get(variable) == "1":
                raise pytest.UsageError(f"{variable}=1, but {module} cannot be imported: {error} ({hint})") from error
            for item in marked:
                item.add_marker(pytest.mark.skip(reason=f"needs {module}, which cannot be imported here: {error}"))


def hear_hangups() -> None:
    """``preexec_fn`` of a program that is tested for SIGHUP: under nohup it would inherit that the signal is ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
