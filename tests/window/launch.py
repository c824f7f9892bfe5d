# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the zip and runs a scenario in a real Blender window: the one in $BLENDER, or ``blender`` on the PATH.

NIK_BLENDER_GUI may name a script that runs such a Blender in a place of its own, as ``SCRIPT run FILE ARGS`` and
``SCRIPT exec COMMAND`` with further arguments for Blender in BLENDER_GUI_ARGS.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
SCENARIOS = Path(__file__).resolve().parent / "scenarios.py"
SIZE = (1000, 800)


def missing() -> str:
    """Why no window can be had here; empty where one can."""
    if os.environ.get("NIK_BLENDER_GUI"):
        return ""
    if blender() is None:
        return "no Blender: set BLENDER to one, or have `blender` on the PATH"
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return "no display for Blender's window"
    return ""


def blender() -> str | None:
    """The Blender to run."""
    return os.environ.get("BLENDER") or shutil.which("blender")


def command(words: list[str], visible: Path, user: Path) -> subprocess.CompletedProcess[str]:
    """Run Blender without a window, as a user with a profile of its own; it sees the folder ``visible``."""
    script = os.environ.get("NIK_BLENDER_GUI")
    start = [script, "exec", "blender"] if script else [str(blender())]
    env = {
        **os.environ,
        "BLENDER_USER_RESOURCES": str(user),
        "BLENDER_GUI_PROFILE": "neural-ik-installs",
        "BLENDER_GUI_BIND": str(visible),
    }
    return subprocess.run([*start, *words], cwd=REPO, env=env, capture_output=True, text=True, check=False, timeout=120)


def script() -> str:
    """The script that runs a Blender in a place of its own; empty where the Blender of this machine is used."""
    return os.environ.get("NIK_BLENDER_GUI", "")


def reset(profile: str) -> None:
    """Forget what the user ``profile`` of that script has installed."""
    env = {**os.environ, "BLENDER_GUI_PROFILE": profile}
    subprocess.run([script(), "reset-profile"], env=env, cwd=REPO, check=True, capture_output=True)


def build(folder: Path) -> Path:
    """The extension's zip, built by that Blender's own command."""
    script = os.environ.get("NIK_BLENDER_GUI")
    start = [script, "exec", "blender"] if script else [str(blender())]
    words = [*start, "--command", "extension", "build", "--source-dir", str(REPO), "--output-dir", str(folder)]
    env = {**os.environ, "BLENDER_GUI_BIND": str(folder)}
    done = subprocess.run(words, cwd=REPO, env=env, capture_output=True, text=True, check=False, timeout=120)
    found = list(folder.glob("*.zip"))
    if done.returncode or not found:
        raise RuntimeError(f"the zip was not built: {done.stdout}{done.stderr}")
    return found[0]


def run(scenario: str, zip_path: Path, out: Path, timeout: float = 900) -> subprocess.CompletedProcess[str]:
    """Run a scenario for a fresh user; its exit code is 0 where it held."""
    return run_script(SCENARIOS, [scenario, str(zip_path), str(out)], out, timeout, zip_path.parent)


def run_script(
    file: Path, words: list[str], out: Path, timeout: float, *visible: Path
) -> subprocess.CompletedProcess[str]:
    """Run a Python file in a window, for a fresh user, with ``words`` after ``--``; it finds this repository, ``out`` and
    ``visible``, and ends Blender itself."""
    out.mkdir(parents=True, exist_ok=True)
    script = os.environ.get("NIK_BLENDER_GUI")
    if script:
        shown = [*map(str, visible), str(out), os.environ.get("NIK_MOCAP", "")]
        env = {
            **os.environ,
            "BLENDER_GUI_ARGS": "--enable-event-simulate",
            "BLENDER_GUI_SIZE": "{}x{}".format(*SIZE),
            "BLENDER_GUI_PROFILE": "neural-ik-tests",
            "BLENDER_GUI_BIND": ":".join(filter(None, shown)),
            "BLENDER_GUI_OUT": str(out),
            "BLENDER_GUI_TIMEOUT": str(int(timeout)),
        }
        subprocess.run([script, "reset-profile"], env=env, cwd=REPO, check=True, capture_output=True)
        start = [script, "run", str(file), *words]
        return subprocess.run(
            start, env=env, cwd=REPO, capture_output=True, text=True, check=False, timeout=timeout + 60
        )
    with tempfile.TemporaryDirectory(prefix="neural_ik_user_", ignore_cleanup_errors=True) as user:
        geometry = ["--window-geometry", "0", "0", *map(str, SIZE)]
        start = [str(blender()), "--enable-event-simulate", *geometry, "--python", str(file), "--", *words]
        env = {**os.environ, "BLENDER_USER_RESOURCES": user}
        return subprocess.run(start, env=env, cwd=REPO, capture_output=True, text=True, check=False, timeout=timeout)
