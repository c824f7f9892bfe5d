# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of ``batch_extract.py``, apart from what it does, so that its help can be read without Blender."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..learning.arguments import number
from . import importing


def parser() -> argparse.ArgumentParser:
    """Its arguments."""
    out = argparse.ArgumentParser(
        prog="batch_extract.py",
        description="Extract the poses of every animated armature in files and folders. Needs Blender: "
        "blender --background --python-exit-code 1 --python batch_extract.py -- PATH -o data.npz, or a Python with bpy.",
        epilog="Exit code 0: poses were written; 1: no file gave any; 2: bad input; 130: stopped by Ctrl-C, 143: by SIGTERM, "
        "129: by SIGHUP. Each file is written whole or not at all, once all inputs are read.",
    )
    out.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files, and folders to look through")
    out.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="NPZ",
        help="file to write the poses to; its name ends in .npz",
    )
    out.add_argument(
        "--fps",
        type=number(float, 0, importing.MAX_FPS, above=True),
        help="frames a second to sample at (default: each clip's own)",
    )
    out.add_argument(
        "--rig",
        choices=importing.RIGS,
        default="own",
        help="keep each armature's own bones, one file for each skeleton, or carry them onto the reference rig (default: own)",
    )
    out.add_argument(
        "--timeline",
        action="store_true",
        help="take each scene's frames as its timeline shows them, with NLA and layers, in place of single actions",
    )
    out.add_argument("--json", type=Path, metavar="FILE", help="write one JSON object for each armature, one per line")
    return out
