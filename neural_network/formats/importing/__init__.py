# SPDX-License-Identifier: GPL-3.0-or-later
"""Files and folders of motion to training data: one file in memory at a time, resumable, never stopped by a bad file.

Each file becomes a part on disk beside the output: its poses and a report. When all parts are there, the clips of each
skeleton are streamed into one npz. An interrupted run finds its parts again by the file's path, size, time and the
options, and ends with the same bytes.
"""

from . import floors
from .conversion import import_file, pieces_of, pieces_with_roles, smoothed
from .options import MAX_FPS, RIGS, ImportOptions, check
from .own_rig import OwnPoses, clip_to_poses, own_poses, own_skeleton, renamed
from .pipeline import run
from .reports import FileReport, ImportProgress, WrittenFile, why_nothing
from .sources import SUFFIXES, files_for_blender, find_files, read_clip
from .writing import outputs, unique_names

__all__ = [
    "MAX_FPS",
    "RIGS",
    "SUFFIXES",
    "FileReport",
    "ImportOptions",
    "ImportProgress",
    "OwnPoses",
    "WrittenFile",
    "check",
    "clip_to_poses",
    "files_for_blender",
    "find_files",
    "floors",
    "import_file",
    "outputs",
    "own_poses",
    "own_skeleton",
    "pieces_of",
    "pieces_with_roles",
    "read_clip",
    "renamed",
    "run",
    "smoothed",
    "unique_names",
    "why_nothing",
]
