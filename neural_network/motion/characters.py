# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the poses and the weights of each character are kept, so that several stand side by side in one folder.

::

    <folder>/characters/<name>-<fingerprint>/character.json    the rig
                                             poses.npz         its poses
                                             ik.npy            its weights, one file for each kind of network

A character is recognised by its rig and never by its name: by bones, parents, effectors and feet (the fingerprint), and by
the rest pose relative to each parent. Moving, turning or scaling the whole rig changes nothing; other proportions, another
rest pose or other bone rolls make it another character. Folders may be renamed: only ``character.json`` counts.
"""

from __future__ import annotations

import json
import os
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..core import skeleton as skeletons
from ..core.files import parse_json, read_text, write_whole
from ..core.skeleton import Skeleton

FOLDER, ABOUT, POSES = "characters", "character.json", "poses.npz"
FORMAT, VERSION = "neural_ik character", 1
SAME_REST = (
    1e-4  # largest difference of two rests of one rig, in sizes of the rig and in matrix entries; float32 gives 1e-6
)
LONGEST_NAME = 40  # characters of the readable part of a folder's name, at most 160 bytes


@dataclass(frozen=True)
class Character:
    """One rig and the folder that holds its files."""

    name: str
    """As the user called it when it was first saved."""
    skeleton: Skeleton
    folder: Path

    @property
    def poses(self) -> Path:
        """Its training data."""
        return self.folder / POSES

    def weights(self, kind: str) -> Path:
        """Its weights of one ``kind`` of network, such as "ik". Raises ValueError unless ``kind`` is a plain word."""
        if not (kind.isascii() and kind.isidentifier()):
            raise ValueError(f"kind: expected a plain word such as ik, got {kind!r}")
        return self.folder / f"{kind}.npy"


def relative_rest(skeleton: Skeleton) -> np.ndarray:
    """(J, 3, 4) rest rotation of each bone relative to its parent's, and its head there in sizes of the rig.

    The size is the farthest distance of a head from the root's. The root itself counts as standing at its parent.
    """
    rest, parents = skeleton.rest_arm, skeleton.parents
    above = np.where(parents < 0, 0, parents)
    heads = rest[:, :3, 3]
    size = float(np.linalg.norm(heads - heads[0], axis=1).max())
    back = rest[above, :3, :3].transpose(0, 2, 1)
    offsets = np.einsum("jab,jb->ja", back, heads - heads[above]) / size
    return np.concatenate([back @ rest[:, :3, :3], offsets[:, :, None]], axis=-1)


def same_rig(a: Skeleton, b: Skeleton) -> bool:
    """Whether two skeletons are one rig: the same fingerprint and rest pose, whatever its place, rotation and size."""
    return a.fingerprint == b.fingerprint and bool(np.abs(relative_rest(a) - relative_rest(b)).max() <= SAME_REST)


def stored(folder: Path) -> tuple[list[Character], list[str]]:
    """The characters in the user's ``folder``, by folder name, and a sentence about each that cannot be read."""
    found: list[Character] = []
    problems: list[str] = []
    try:
        inside = sorted((folder / FOLDER).iterdir())
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"{folder / FOLDER}: {error.strerror or error}"]
    for path in inside:
        about = path / ABOUT
        try:
            state = about.stat()
        except OSError:
            continue  # not a character
        try:
            name, skeleton = _read(about, state.st_mtime_ns, state.st_size)
        except (ValueError, OSError) as error:
            problems.append(str(error))
            continue
        found.append(Character(name, skeleton, path))
    return found, problems


def find(folder: Path, skeleton: Skeleton) -> Character | None:
    """The character of this rig in the user's ``folder``; None where there is none."""
    return next((c for c in stored(folder)[0] if same_rig(c.skeleton, skeleton)), None)


def place(folder: Path, skeleton: Skeleton, name: str) -> Character:
    """:func:`find`, or the Character as it would be made: under ``name``, in a folder that does not exist yet."""
    found = find(folder, skeleton)
    if found is not None:
        return found
    free = named = folder / FOLDER / folder_name(name, skeleton.fingerprint)
    number = 1
    while os.path.lexists(free):
        number += 1
        free = named.with_name(f"{named.name}-{number}")
    return Character(name, skeleton, free)


def keep(folder: Path, skeleton: Skeleton, name: str) -> Character:
    """:func:`place`, with the folder and its ``character.json`` made where they are missing. Raises OSError, in words."""
    for _ in range(5):  # another process may take the same free name meanwhile
        character = place(folder, skeleton, name)
        if (character.folder / ABOUT).exists():
            return character
        try:
            character.folder.mkdir(parents=True)
            break
        except FileExistsError:
            continue
        except OSError:
            break  # writing fails as well, and says why in words
    write_whole(character.folder / ABOUT, _text(character).encode())
    return character


def folder_name(name: str, fingerprint: str) -> str:
    """A name for the folder that every file system takes: letters and digits of any script, spaces and - and _.

    The fingerprint's beginning stands behind it, so it is never empty, reserved (CON, NUL) or hidden, and ends in no dot.
    """
    kept = [c if c in " -_" or unicodedata.category(c)[0] in "LNM" else "_" for c in unicodedata.normalize("NFC", name)]
    short = "".join(kept)[:LONGEST_NAME].strip(" _-")
    return f"{short or 'character'}-{fingerprint[:8]}"


def _text(character: Character) -> str:
    rig = character.skeleton
    return json.dumps(
        {
            "format": FORMAT,
            "version": VERSION,
            "name": character.name.encode("utf-8", "replace").decode(),
            "bone_names": rig.names,
            "parents": rig.parents.tolist(),
            "effectors": [rig.names[e] for e in rig.effectors],
            "feet": [rig.names[f] for f in rig.feet],
            "rest_arm": rig.rest_arm.tolist(),
            "t_pose": rig.t_pose.tolist(),
        }
    )


@lru_cache(maxsize=256)
def _read(path: Path, modified: int, size: int) -> tuple[str, Skeleton]:
    """Name and rig in a ``character.json``; ``modified`` and ``size`` make a changed file be read again.

    Raises ValueError, in words, for a damaged file.
    """
    try:
        about: Any = parse_json(read_text(path, "a character"))
        if about["format"] != FORMAT or about["version"] != VERSION:
            raise ValueError(f"expected version {VERSION} of {FORMAT}, got {about['version']} of {about['format']}")
        for bone in about["bone_names"]:
            if not isinstance(bone, str):
                raise ValueError(f"expected names of bones, got {bone!r}")
            bone.encode()  # UnicodeEncodeError, a ValueError, for half a character
        skeleton = skeletons.make(
            about["bone_names"],
            np.array(about["parents"], int),
            np.array(about["rest_arm"], np.float64),
            about["effectors"],
            about["feet"],
            np.array(about["t_pose"], np.float64),
        )
        return str(about["name"]), skeleton
    except (KeyError, TypeError, IndexError, OverflowError, RecursionError, ValueError) as error:
        words = f"no field {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path.parent.name}/{path.name} is damaged: {words}".split("\n")[0]) from None
