# SPDX-License-Identifier: GPL-3.0-or-later
"""What each setting of the predictors brings: one training for each, judged on subjects inside the training data.

``python -m benchmarks.motion_ablations --data TAKES.npz`` trains every row with the same steps, seed and takes, several at a time,
and writes what each reached on the validation subjects to ``benchmarks/motion_ablations.json`` (``-o``). Takes are those of
``python -m neural_network import --rig reference --fps 30``, named SUBJECT_TAKE; subjects 07, 16 and 49, which the figures of
``motion eval`` come from, are left out. ``--keep`` keeps the weights. With ``--show`` it prints the table of a file written before.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from neural_network.core.files import write_whole
from neural_network.core.messages import show
from neural_network.learning.arguments import positive

REPO = Path(__file__).resolve().parents[1]
WRITTEN = REPO / "benchmarks" / "motion_ablations.json"
LEFT_OUT, VALIDATED = "07,16,49", "02,10,131"
BASE = "--width 192 --batch-size 64 --horizons 1,8,30"
"""Of every row, smaller than what is trained to be used, so that all rows together are not long."""
SMALL = "--width 96 --depth 2 --batch-size 32 --horizons 1,8"
"""Of rows with networks that look at whole windows in every step."""
SOURCE = "--preset source --horizons 5"
THROUGH = "--horizons 1,8,30 --rollouts through --rollout-share 1"
ROWS = {
    "as it is: mlp, rollouts of 1, 8 and 30 frames": "--mode mlp",
    "rollouts off": "--mode mlp --rollouts off",
    "rollouts detached": "--mode mlp --rollouts detached",
    "a fifth of the batches roll out 5 steps, detached": "--mode mlp --horizons 5 --rollouts detached --rollout-share 0.2",
    "rollouts of 1 and 8 frames alone": "--mode mlp --horizons 1,8",
    "velocity 0.3": "--mode mlp --velocity 0.3",
    "velocity 0.5": "--mode mlp --velocity 0.5",
    "velocity adaptive": "--mode mlp --velocity adaptive",
    "smooth 0.01": "--mode mlp --smooth 0.01",
    "curriculum": "--mode mlp --curriculum",
    "mean squares alone, no distances of joints": "--mode mlp --joints 0 --path 0",
    "layout dof56": "--mode mlp --layout dof56",
    "source": f"--mode mlp {SOURCE}",
    "source, rollouts of 1, 8 and 30 frames with gradients through": f"--mode mlp {SOURCE} {THROUGH}",
    "as captured, no mirror images, no other speeds": "--mode mlp --as-captured",
    "gru, windows of 16": "--mode gru --seq_len 16",
    "mode gru": "--mode gru",
    "mode direct": "--mode direct --width 96 --batch-size 32",
    "rollouts of 1, 8, 30 and 60 frames": "--mode mlp --horizons 1,8,30,60",
    "velocity 0": "--mode mlp --velocity 0",
    "no dropout": "--mode mlp --dropout 0",
    "mode transformer_reg": f"--mode transformer_reg {SMALL}",
    "mode transformer (causal)": f"--mode transformer {SMALL}",
    "transformer, rollouts off, windows of 64": f"--mode transformer {SMALL} --rollouts off",
    "transformer, rollouts off, windows of 128": f"--mode transformer {SMALL} --rollouts off --seq_len 128",
    "source, velocity 0.3": f"--mode mlp {SOURCE} --velocity 0.3",
    "source, velocity 0.5": f"--mode mlp {SOURCE} --velocity 0.5",
    "source, velocity adaptive": f"--mode mlp {SOURCE} --velocity adaptive",
    "source, smooth 0.01": f"--mode mlp {SOURCE} --smooth 0.01",
    "source, curriculum": f"--mode mlp {SOURCE} --curriculum",
    "source, rollouts off": f"--mode mlp {SOURCE} --rollouts off",
}
SHOWN = {
    "MPJPE after 1 [mm]": "1",
    "MPJPE after 10 [mm]": "10",
    "MPJPE after 30 [mm]": "30",
    "MPJPE after 60 [mm]": "60",
    "mean MPJPE [mm]": "mean",
    "global error at the end [mm]": "global at 60",
    "next frame: position MSE": "position MSE",
    "next frame: velocity MSE": "velocity MSE",
    "next frame: R2": "R2",
    "RMSE at the end over RMSE of the next frame": "RMSE 60/1",
    "growth exponent": "growth",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Train all rows and write what they reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="TAKES.npz", help="takes to train and to validate on")
    parser.add_argument("-o", "--output", type=Path, default=WRITTEN, help="(%(default)s)")
    parser.add_argument("--steps", type=positive(int), default=150, help="of every training (%(default)s)")
    parser.add_argument("--jobs", type=positive(int), default=1, help="trainings at a time (%(default)s)")
    parser.add_argument("--most", type=positive(float), default=600.0, help="seconds that one may take (%(default)s)")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--only", nargs="+", metavar="WORDS", help="rows whose names hold one of these")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep weights and reports here")
    parser.add_argument("--show", action="store_true", help="print the table of what was written before")
    args = parser.parse_args(argv)
    if args.show:
        show(table(json.loads(args.output.read_text(encoding="utf-8"))))
        return 0
    if args.data is None:
        parser.error("expected --data TAKES.npz, or --show")
    rows = {name: words for name, words in ROWS.items() if not args.only or any(part in name for part in args.only)}
    with tempfile.TemporaryDirectory() as temporary:
        for document in trained(rows, args, args.keep or Path(temporary)):
            write_whole(args.output, (json.dumps(document, indent=1) + "\n").encode())
    show(table(document))
    return 0


def trained(rows: dict[str, str], args: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """Train rows, some at a time, and gather what they wrote: the document so far, each time one is done."""
    folder.mkdir(parents=True, exist_ok=True)
    waiting, running, out = list(enumerate(rows.items())), [], {}
    hold: dict[str, float] = {}
    while waiting or running:
        while waiting and len(running) < args.jobs:
            number, (name, words) = waiting.pop(0)
            report = folder / f"{number:02d}.json"
            command = [sys.executable, str(REPO / "standalone_trainer.py"), "motion", *BASE.split(), *words.split()]
            command += ["--data", str(args.data), "--leave-out", LEFT_OUT, "--validate", VALIDATED, "--quiet"]
            command += ["--steps", str(args.steps), "--round", "50", "--time-limit", str(args.most)]
            command += ["--device", args.device, "--json", str(report), "--weights", str(report.with_suffix(".npz"))]
            running.append((name, report, subprocess.Popen(command), time.perf_counter()))
        time.sleep(0.2)
        for one in [one for one in running if one[2].poll() is not None]:
            running.remove(one)
            name, report, process, began = one
            if process.returncode:
                show(f"{name}: failed with {process.returncode}", error=True)
                continue
            found = json.loads(report.read_text(encoding="utf-8"))
            hold = found["figures"].pop("hold the pose")
            (figures,) = found["figures"].values()
            out[name] = {"command": found["command"], "steps": found["steps"], "figures": figures}
            show(f"{name}: {time.perf_counter() - began:.0f} s, mean {figures['mean MPJPE [mm]']:.1f} mm")
            ordered = {name: out[name] for name in rows if name in out}
            yield {"schema": 1, "left_out": LEFT_OUT, "validated_on": VALIDATED, "hold the pose": hold, "rows": ordered}


def table(document: dict[str, Any]) -> str:
    """A table of what was written."""
    lines = [("", *SHOWN.values(), "steps")]
    for name, row in {**document["rows"], "hold the pose": {"figures": document["hold the pose"]}}.items():
        lines.append((name, *(f"{row['figures'][key]:.3g}" for key in SHOWN), str(row.get("steps", ""))))
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if not i else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


if __name__ == "__main__":
    sys.exit(main())
