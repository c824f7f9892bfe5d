# SPDX-License-Identifier: GPL-3.0-or-later
"""How well roles are found in motion capture files, compared with their true roles: python -m benchmarks.roles

Three runs: with the files' own names, with random names (structure alone), and with left and right swapped in all names.
BVH and ASF/AMC files are read here; GLB and FBX need Blender. The exit code is 1 below 99, 95 and 99 %.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from neural_network.formats import asf_amc, bvh
from neural_network.learning.arguments import positive
from neural_network.motion.clip import Clip
from neural_network.rigs.rig_body import clip_evidence
from neural_network.rigs.roles import Roles, find_roles

LEAST = {"true": 0.99, "random": 0.95, "swapped": 0.99}


@dataclass(frozen=True)
class FamilyResult:
    """The result for one family of files."""

    family: str
    files: int
    recognised: int
    reported: int
    right: int
    count: int
    mistakes: tuple[str, ...]


def score_truth(mocap: Path, names: str, files_each: int | None = None) -> list[FamilyResult]:
    """The result for each humanoid family with known roles, with names 'true', 'random' or 'swapped'."""
    table = json.loads((mocap / "roles_truth.json").read_text(encoding="utf-8"))
    rows = []
    for entry in table["skeletons"]:
        clips = [c for f in entry["files"][:files_each] if (c := _read(mocap / f)) is not None]
        if entry.get("creature") or entry["joint_count"] < 10 or not clips:
            continue
        found = [_roles(clip, names) for clip in clips]
        mistakes = [m for clip, roles in zip(clips, found, strict=True) for m in _mistakes(entry["roles"], clip, roles)]
        count = len(entry["roles"]) * len(clips)
        rows.append(
            FamilyResult(
                entry["family"],
                len(clips),
                sum(r.humanoid for r in found),
                sum(any("left and right swapped" in n for n in r.notes) for r in found),
                count - len(mistakes),
                count,
                tuple(mistakes),
            )
        )
    return rows


def right_roles(rows: Sequence[FamilyResult]) -> float:
    """Share of correct roles over all files."""
    return sum(r.right for r in rows) / max(sum(r.count for r in rows), 1)


def swapped_names(names: Sequence[str]) -> list[str]:
    """The names with left and right exchanged, as an author's mistake would have it; names without a twin stay."""
    there = set(names)
    out = []
    for name in names:
        twin = name
        for a, b in (("Left", "Right"), ("left", "right"), ("L", "R"), ("l", "r"), ("左", "右")):
            for this, other in ((a, b), (b, a)):
                for hit in re.finditer(this, name):
                    candidate = name[: hit.start()] + other + name[hit.end() :]
                    if candidate in there and twin == name:
                        twin = candidate
        out.append(twin)
    return out


@cache
def _read(path: Path) -> Clip | None:
    try:
        if path.suffix == ".bvh":
            return bvh.read(path)
        if path.suffix == ".asf":
            subject = path.stem.split("-")[0]
            takes = sorted(path.parent.glob(f"{subject}_*.amc"))
            return asf_amc.read(path, takes[0]) if takes else None
    except (OSError, ValueError) as error:
        print(f"{path.name}: {error}", file=sys.stderr)
    return None


def _roles(clip: Clip, names: str) -> Roles:
    own, parents, heads, evidence = clip_evidence(clip)
    called: Sequence[str] = own
    if names == "random":
        rng = np.random.default_rng(len(own))
        called = ["".join(rng.choice(list("bcdfghjkmnpqstvwxz"), 9)) for _ in own]
    elif names == "swapped":
        called = swapped_names(own)
    return find_roles(called, parents, heads, **evidence)


def _mistakes(truth: dict[str, Any], clip: Clip, roles: Roles) -> list[str]:
    out = []
    for role, accepted in truth.items():
        bone = roles.bones[role]
        found = None if bone is None else clip.names[bone]
        if found not in (accepted if isinstance(accepted, list) else [accepted]):
            out.append(f"{clip.name}: {role} is {found}, expected {accepted}")
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Print the three tables; 0 where all reach what is asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = Path(__file__).resolve().parent.parent
    parser.add_argument(
        "--mocap", type=Path, default=Path(os.environ.get("NIK_MOCAP", here.parent / "shared" / "mocap"))
    )
    parser.add_argument("--files-each", type=positive(int), help="maximum number of files of each family")
    parser.add_argument("--mistakes", action="store_true", help="list every wrong role")
    options = parser.parse_args(argv)
    if not (options.mocap / "roles_truth.json").is_file():
        print(f"expected roles_truth.json in {options.mocap}; set NIK_MOCAP or --mocap")
        return 2
    failed = False
    for names, least in LEAST.items():
        rows = score_truth(options.mocap, names, options.files_each)
        print(f"names: {names}")
        for row in rows:
            print(
                f"  {row.family[:44]:46s}{row.recognised:3d} of {row.files:3d} files, {row.right:5d} of {row.count:5d} roles"
            )
            if options.mistakes:
                print("".join(f"      {m}\n" for m in row.mistakes), end="")
        files, recognised = sum(r.files for r in rows), sum(r.recognised for r in rows)
        share = right_roles(rows)
        print(f"  all: {recognised} of {files} files recognised, {share:.2%} of roles correct (required: {least:.0%})")
        if names == "swapped":
            print(f"  swapped left and right reported for {sum(r.reported for r in rows)} of {files} files")
        failed |= share < least or recognised < files
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
