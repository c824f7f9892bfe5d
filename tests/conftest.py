# SPDX-License-Identifier: GPL-3.0-or-later
"""What all tests share: named tolerances, random numbers, motion capture, the command line, and who needs Blender."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

REPO = Path(__file__).resolve().parent.parent

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
    folder = Path(named) if named else REPO.parent / "shared" / "mocap"
    if not folder.is_dir():
        pytest.skip(f"no motion capture: NIK_MOCAP is {named!r} and {folder.name!r} is not beside the checkout")
    return folder


def run_cli(
    *args: str | Path,
    cwd: str | Path | None = None,
    env: dict[str, str] | None = None,
    timeout: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Run this very Python with ``args`` as a user would, by default in the repository's root, with one thread.

    ``env`` adds to the environment. A relative script such as ``standalone_trainer.py`` is found from any ``cwd``.
    """
    words = [str(REPO / a) if str(a).endswith(".py") and (REPO / a).exists() else str(a) for a in args]
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    settings = {"PYTHONPATH": str(REPO), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8"}
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


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    """Length of the difference over the length of the expected."""
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is marked ``host`` where bpy cannot be imported; with NIK_REQUIRE_HOST=1 that is an error instead."""
    hosted = [item for item in items if item.get_closest_marker("host")]
    if not hosted:
        return
    try:
        importlib.import_module("bpy")
    except Exception as error:  # a missing system library shows in many ways
        if os.environ.get("NIK_REQUIRE_HOST") == "1":
            hint = "on Debian it needs libxi6 libxxf86vm1 libxfixes3 libxrender1 libxkbcommon0 libsm6 libgl1"
            raise pytest.UsageError(f"NIK_REQUIRE_HOST=1, but bpy cannot be imported: {error} ({hint})") from error
        for item in hosted:
            item.add_marker(pytest.mark.skip(reason=f"needs bpy, which cannot be imported here: {error}"))
