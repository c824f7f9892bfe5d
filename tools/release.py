# SPDX-License-Identifier: GPL-3.0-or-later
"""Build a release: the zip, and the index that makes its folder a repository of extensions.

``python -m tools.release [FOLDER]``, from the root of the repository, with Blender in BLENDER or on the PATH. It refuses a version
that the changelog does not describe, and changes that are still under *Unreleased*. ``--check`` only checks. ``--unreleased`` builds
all the same, to try a zip that nobody gets.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
VERSION = re.compile(r"\d+\.\d+\.\d+")
HEADING = re.compile(r"^## +(.+?)\s*$", re.MULTILINE)


class Refused(ValueError):
    """Why there is no release, in words."""


def version_of(manifest: str) -> str:
    """The version that the manifest's text gives. Raises Refused where it is none of three numbers."""
    found = str(tomllib.loads(manifest).get("version", ""))
    if not VERSION.fullmatch(found):
        raise Refused(f"blender_manifest.toml: expected a version such as 1.2.3, got {found!r}")
    return found


def check(manifest: str, changelog: str) -> str:
    """The version to release: the newest that the changelog describes. Raises Refused where manifest and changelog differ."""
    version = version_of(manifest)
    parts = HEADING.split(changelog)[1:]
    sections = list(zip(parts[::2], parts[1::2], strict=True))
    waiting = next((body for title, body in sections if title.lower() == "unreleased"), "").strip()
    if waiting:
        raise Refused(
            f"CHANGELOG.md: {len(re.findall(r'^- ', waiting, re.MULTILINE))} changes stand under Unreleased: give them a heading "
            f"such as `## {version} - 2000-01-31`, and the manifest that version"
        )
    described = [(found[0], body) for title, body in sections if (found := VERSION.search(title))]
    if not described or described[0][0] != version:
        newest = described[0][0] if described else "none"
        raise Refused(
            f"the manifest says {version}, the newest version in CHANGELOG.md is {newest}: make them the same"
        )
    if not described[0][1].strip():
        raise Refused(f"CHANGELOG.md says nothing about {version}: say what changed")
    return version


def blender() -> list[str]:
    """The command that runs Blender. Raises Refused where there is none."""
    script = os.environ.get("NIK_BLENDER_GUI")
    if script:
        return [script, "exec", "blender"]
    found = os.environ.get("BLENDER") or shutil.which("blender")
    if not found:
        raise Refused("no Blender: set BLENDER to one, or have `blender` on the PATH")
    return [found]


def build(folder: Path, version: str) -> tuple[Path, Path]:
    """Build the zip and the index of ``folder`` with Blender's own commands; returns both files. Raises Refused where one fails."""
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"neural_ik-{version}.zip"
    others = sorted(path.name for path in folder.glob("*.zip") if path != made)
    if others:
        raise Refused(f"{folder} holds {', '.join(others)}: Blender's index takes one version, so move the others away")
    made.unlink(missing_ok=True)
    _run("validate", str(REPO), seen=folder)
    _run("build", "--source-dir", str(REPO), "--output-dir", str(folder), seen=folder)
    if not made.exists():
        raise Refused(f"Blender built no {made}")
    _run("validate", str(made), seen=folder)
    _run("server-generate", "--repo-dir", str(folder), "--html", seen=folder)
    index = folder / "index.json"
    listed = json.loads(index.read_text("utf-8"))["data"] if index.exists() else []
    if not any(entry["id"] == "neural_ik" and entry["version"] == version for entry in listed):
        raise Refused(f"{index} does not list neural_ik {version}")
    return made, index


def _run(*words: str, seen: Path) -> None:
    command = [*blender(), "--command", "extension", *words]
    env = {**os.environ, "BLENDER_GUI_BIND": str(seen)}
    done = subprocess.run(command, cwd=REPO, env=env, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise Refused(f"`{' '.join(words[:1])}` failed: {(done.stdout + done.stderr).strip()[-1500:]}")


def main(argv: Sequence[str] | None = None) -> int:
    """Check, build, and say where everything is; exit code 2 where there is no release."""
    parser = argparse.ArgumentParser(description="Build the zip and the repository index of a release.")
    parser.add_argument("folder", type=Path, nargs="?", default=REPO / "dist", help="where they go (default: dist)")
    parser.add_argument("--check", action="store_true", help="only check the version against the changelog")
    parser.add_argument("--unreleased", action="store_true", help="build what is not in the changelog as a version yet")
    args = parser.parse_args(argv)
    try:
        manifest = (REPO / "blender_manifest.toml").read_text("utf-8")
        if args.unreleased:
            version = version_of(manifest)
        else:
            version = check(manifest, (REPO / "CHANGELOG.md").read_text("utf-8"))
        if args.check:
            sys.stdout.write(f"{version}: the manifest and the changelog agree\n")
            return 0
        made, index = build(args.folder.resolve(), version)
    except Refused as refused:
        sys.stderr.write(f"release.py: {refused}\n")
        return 2
    sys.stdout.write(f"{made} ({made.stat().st_size / 1e6:.1f} MB)\n{index}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
