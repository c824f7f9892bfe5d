# SPDX-License-Identifier: GPL-3.0-or-later
"""Film strips of the same motion in several files: ``python -m tools.physics_picture FILE.npz [FILE.npz ...] OUT.png``. Needs matplotlib.

A row for each file's first clip, such as what was keyed, the ghost of Make Physical, and what was accepted; beside it the balance
score of its frames.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from neural_network.core.messages import require
from neural_network.motion import pose_set
from neural_network.physics import balance
from neural_network.rigs import on_body
from tools.repair_picture import strip

SCORE, MOST = "#c8102e", 1.2


def main(argv: Sequence[str] | None = None) -> int:
    """Draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clips", type=Path, nargs="+")
    parser.add_argument("output")
    args = parser.parse_args(argv)
    require("matplotlib", "uv run --group report python -m tools.physics_picture installs it")
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    count = len(args.clips)
    figure, axes = plt.subplots(count, 2, figsize=(17, 3.2 * count), width_ratios=(5, 2), squeeze=False)
    for (side, beside), path in zip(axes, args.clips, strict=True):
        poses = pose_set.load(path)
        who, rows = on_body.found(poses.skeleton), poses.rows(0)
        turns, root = on_body.to_body(who, poses.rot[rows], poses.root_pos[rows])
        strip(side, who.body, turns, root)
        score = balance.balance(who.body, turns, root, float(poses.clip_fps[0])).score
        side.set_title(f"{path.stem}: balance score {score.mean():.2f}", fontsize=11, loc="left", pad=2)
        beside.fill_between(range(len(score)), score, color=SCORE, alpha=0.6)
        beside.set_ylim(0, MOST)
        beside.set_xlabel("frame", fontsize=8)
        beside.tick_params(labelsize=7)
    figure.tight_layout(pad=0.4)
    figure.savefig(args.output, dpi=70)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
