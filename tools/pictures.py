# SPDX-License-Identifier: GPL-3.0-or-later
"""Take the pictures of the panels in docs/pictures again, in a real Blender window.

``python -m tools.pictures``, from the root of the repository, with BLENDER, or ``blender`` on the PATH, and ImageMagick.
The window tests perform the same steps.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.window import launch

SCENARIOS = {
    "newcomer": "[0-9]_*.png",
    "roles": "roles.png",
    "gait": "gait_panel.png",
    "filling": "motion_panel.webp",
    "feet": "feet_panel.webp",
    "dragging": "live_2_dragged.png",
    "teaching": "live_learning.png",
}
"""Scenario -> pattern of its pictures that are kept."""


RENAMED = {"live_2_dragged.png": "live_ik_panel.png"}


def main() -> int:
    """Run the scenarios and keep their pictures; exit code 2 where no window is available."""
    reason = launch.missing()
    if reason:
        sys.stderr.write(f"pictures.py: {reason}\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="neural_ik_") as name:
        folder = Path(name)
        zip_path, pictures = launch.build(folder), []
        for scenario, wanted in SCENARIOS.items():
            out = folder / scenario
            done = launch.run(scenario, zip_path, out)
            found = sorted(out.glob(wanted))
            if done.returncode or not found:
                sys.stderr.write(f"pictures.py: the steps of {scenario} failed\n{done.stdout}{done.stderr}")
                return 1
            pictures += found
        kept = launch.REPO / "docs" / "pictures"
        kept.mkdir(parents=True, exist_ok=True)
        for picture in pictures:
            shutil.copy(picture, kept / RENAMED.get(picture.name, picture.name))
    sys.stdout.write(f"{len(pictures)} pictures in {kept}; {(done.stdout.strip().splitlines() or ['-'])[-1]}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
