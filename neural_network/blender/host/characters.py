# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose poses and weights a button reads and writes: those of the active character, kept in a folder of its own.

Where the character has none of its own, the files of earlier versions (``training_data.npz`` and ``weights/best.npy`` in the
user's folder, one for all characters) are read in place if they were made from its rig, else what came with Neural IK. Files
of earlier versions are never written, moved or deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import bpy
import numpy as np

from ...core.messages import counted
from ...core.reference_rig import reference
from ...core.skeleton import Skeleton
from ...ik import density, network
from ...ik.network import Network
from ...live.kept_file import contents
from ...motion import characters, pose_set
from ...motion.characters import Character, same_rig
from ...motion.pose_set import PoseSet
from ...rigs.roles import ROLE_NAMES
from . import control_rigs, jobs, memory, rig, rig_checks

IK = "ik"  # the kind of the weights that Train makes
BUILT_IN = "Built-in Rig"  # the name under which poses and weights that came with Neural IK are kept
UNNAMED = "Character"  # of files of earlier versions, where no character is active
SHIPPED = "came with Neural IK"

Content = TypeVar("Content", PoseSet, Network)


@dataclass(frozen=True)
class Subject:
    """The rig that a button is about; plain values, so that no Blender data is kept."""

    name: str
    skeleton: Skeleton
    roles: tuple[str, ...]
    """(J) what each bone is on the reference rig."""


@dataclass(frozen=True)
class Found(Generic[Content]):
    """A file that was read for a character."""

    path: Path
    content: Content
    whose: str
    """The character's name; empty for what came with Neural IK."""
    note: str = ""
    """Why this file and not the character's own; empty where it is its own."""
    earlier: bool = False
    """It was written by an earlier version, which kept one file for all characters."""

    @property
    def shipped(self) -> bool:
        """Whether it came with Neural IK."""
        return not self.whose

    @property
    def source(self) -> str:
        """Whose it is, as the panel shows it."""
        if self.earlier:
            return f"{self.whose} ({self.path.name} of an earlier version)"
        return self.whose or SHIPPED


# ---- which character


def earlier_poses() -> Path:
    """Where earlier versions kept the poses of whichever character was saved last."""
    return memory.folder() / "training_data.npz"


def earlier_weights() -> Path:
    """Where earlier versions kept the weights of whichever character was trained last."""
    return memory.folder() / "weights" / "best.npy"


def subject_of(ob: bpy.types.Object) -> Subject:
    """The rig of an armature object as a Subject. Raises ValueError for a rig that cannot be read."""
    found = control_rigs.read_any(ob)
    return Subject(ob.name, found.skeleton, found.roles)


def active_object(context: bpy.types.Context) -> bpy.types.Object | None:
    """The armature object that is meant; None where there is none, or several to choose from."""
    try:
        return rig.find(context)
    except ValueError:
        return None


def active(context: bpy.types.Context) -> Subject | None:
    """The character that is meant; None where there is none, or its rig cannot be read."""
    try:
        return subject_of(rig.find(context))
    except ValueError:
        return None


_drawn: tuple[object, Subject | None] = (None, None)


def drawn(context: bpy.types.Context) -> Subject | None:
    """:func:`active` for panels and polls, which ask on every redraw: read again only after the rig has changed."""
    global _drawn
    ob = active_object(context)
    if ob is None or ob.pose is None:  # linked a moment ago, and reading it would need an update
        return None
    bones = ob.data.bones
    rest, deforms = np.empty(16 * len(bones), np.float32), np.empty(len(bones), bool)
    bones.foreach_get("matrix_local", rest)
    bones.foreach_get("use_deform", deforms)
    tree = tuple((b.name, b.parent.name if b.parent else "") for b in bones)
    size = tuple(np.round(np.array(ob.matrix_world.to_scale()), 5).tolist())
    chosen = (tuple(rig.given_roles(ob).items()), rig.given_effectors(ob))
    key = (ob.name, ob.mode, tree, rest.tobytes(), deforms.tobytes(), size, chosen)
    if _drawn[0] != key:
        _drawn = key, active(context)
    return _drawn[1]


def forget() -> None:
    """Drop what :func:`drawn` keeps."""
    global _drawn
    _drawn = None, None


def kept(subject: Subject) -> Character:
    """The character's folder, as it is or as it would be made. Makes nothing."""
    return characters.place(memory.folder(), subject.skeleton, subject.name)


def name_for(skeleton: Skeleton, context: bpy.types.Context, otherwise: str) -> str:
    """A name for poses of this skeleton that come from a file: the active character's if they are its own."""
    subject = active(context)
    return subject.name if subject is not None and same_rig(subject.skeleton, skeleton) else otherwise


def keep_poses_of(skeleton: Skeleton, context: bpy.types.Context, name: str) -> Character:
    """The folder for poses of this ``skeleton``, made where it is missing: that of the active character if they are its own.

    ``name``: what a new folder is called. Raises OSError, in words.
    """
    ob, subject = active_object(context), active(context)
    known = characters.find(memory.folder(), skeleton) is not None
    if not known and ob is not None and subject is not None and belongs(ob, skeleton):
        return characters.keep(memory.folder(), subject.skeleton, subject.name)
    return characters.keep(memory.folder(), skeleton, name or UNNAMED)


def belongs(ob: bpy.types.Object, skeleton: Skeleton) -> bool:
    """Whether a file with this ``skeleton`` was made from the rig of ``ob``, or from some of its bones."""
    own = control_rigs.read_any(ob).skeleton
    return same_rig(own, skeleton) or same_rig(rig.read(ob, skeleton).skeleton, skeleton)


# ---- what to read


def poses_to_load(ob: bpy.types.Object | None) -> Found[PoseSet]:
    """The poses of a character; without one, those of earlier versions, else the shipped ones.

    Raises ValueError or OSError, in words, for a damaged file.
    """
    return _first(ob, lambda c: c.poses, earlier_poses(), memory.SHIPPED_DATA, pose_set.load, "poses")


def weights_to_load(ob: bpy.types.Object | None) -> Found[Network]:
    """The weights of a character; without one, those of earlier versions, else the shipped ones, see :func:`_shipped_weights`.

    Raises ValueError or OSError, in words, for a damaged file, and where there are none at all.
    """
    return _first(ob, lambda c: c.weights(IK), earlier_weights(), _shipped_weights(ob), network.load, "weights")


def _shipped_weights(ob: bpy.types.Object | None) -> Path:
    """The weights that came with Neural IK for ``ob``: those of the built-in character for its own rig, else those for people."""
    try:
        built_in = ob is None or same_rig(subject_of(ob).skeleton, reference())
    except ValueError:
        built_in = False
    return memory.SHIPPED_WEIGHTS if built_in else memory.PEOPLE_WEIGHTS


def _first(
    ob: bpy.types.Object | None,
    own_file: Callable[[Character], Path],
    earlier: Path,
    shipped: Path,
    read: Callable[[Path], Content],
    what: str,
) -> Found[Content]:
    """The first of the character's own file, that of earlier versions and the shipped one; ``what`` names them in messages."""
    try:
        subject = subject_of(ob) if ob is not None else None
    except ValueError:  # a control rig, say, which only weights of other rigs move
        subject = None
    notes: list[str] = [f"{subject.name} has no {what} of its own"] if subject is not None else []
    if subject is not None:
        own = kept(subject)
        if own_file(own).exists():
            return Found(own_file(own), _read(read, own_file(own), f"the {what} of {own.name}"), own.name)
        notes += characters.stored(memory.folder())[1]
    if earlier.exists():
        advice = f"; delete or rename {earlier} to go on without it"
        content = _read(read, earlier, f"{what} of an earlier version", advice)
        if ob is None or subject is None or belongs(ob, content.skeleton):
            return Found(earlier, content, subject.name if subject is not None else UNNAMED, earlier=True)
        notes.append(
            f"{earlier} is of another rig ({_difference(subject.skeleton, content.skeleton)}), and was left alone; "
            "choose it as File to load it all the same"
        )
    if not shipped.exists():
        remedy = "Train first" if what == "weights" else "Extract Data first"
        raise ValueError("; ".join([*notes, f"no {what} came with this Neural IK: {remedy}"]))
    if len(notes) < 2:  # nothing was refused: "came with Neural IK" says it all
        return Found(shipped, read(shipped), "")
    return Found(shipped, read(shipped), "", "; ".join([*notes, f"these {what} came with Neural IK"]))


def _read(read: Callable[[Path], Content], path: Path, what: str, advice: str = "") -> Content:
    try:
        return read(path)
    except ValueError as error:
        raise ValueError(f"{what}: {error}{advice}") from None


def _difference(ours: Skeleton, theirs: Skeleton) -> str:
    """How another rig differs, in a few words."""
    if ours.fingerprint == theirs.fingerprint:
        return "the same bones with other proportions or another rest pose"
    if ours.count != theirs.count:
        return f"{counted(theirs.count, 'bone')}, here {ours.count}"
    return "other bones, effectors or feet"


# ---- weights into memory


def take_weights(found: Found[Network], chosen: bool = False) -> str:
    """Put weights into memory; ``chosen``: the user picked the file. Returns a sentence about them."""
    keep = memory.memory
    keep.network, keep.network_file, keep.network_chosen = found.content, found.path, chosen
    keep.results, keep.card = (), {}
    keep.network_seen = contents(found.path)
    keep.network_from, keep.network_note = found.source, found.note
    keep.trained = "" if found.shipped else memory.written(found.path)
    jobs.redraw()
    note = f". {found.note[0].upper()}{found.note[1:]}" if found.note else ""
    return f"Weights for {counted(found.content.skeleton.count, 'bone')} ({keep.network_from}){note}"


def weights_for(ob: bpy.types.Object, show: bool = True) -> Network:
    """The network that moves ``ob``: a file that the user chose, else the character's own weights, else what is in memory.

    What is read is put into memory, and so shown in the panel, unless other weights are there and ``show`` is False. Weights of a
    person move any other, whatever bones it has. Raises ValueError or OSError, in words.
    """
    return rig_checks.suited(ob, _weights_for(ob, show))


def _weights_for(ob: bpy.types.Object, show: bool) -> Network:
    keep = memory.memory
    if keep.network is not None and (keep.network_chosen or keep.network_file is None) and _fits(ob, keep.network):
        return keep.network
    if keep.network is not None:
        try:
            own = kept(subject_of(ob)).weights(IK)
        except ValueError:  # a control rig, say: it has none of its own
            return keep.network
        others = {memory.SHIPPED_WEIGHTS, memory.PEOPLE_WEIGHTS} - {_shipped_weights(ob)}
        fits = keep.network_chosen or (keep.network_file not in others and _fits(ob, keep.network))
        if own == keep.network_file or (not own.exists() and fits):
            return keep.network
    found = weights_to_load(ob)
    if keep.network is None or show:
        take_weights(found)
    return found.content


def _fits(ob: bpy.types.Object, net: Network) -> bool:
    try:
        rig_checks.fit_live(ob, rig_checks.suited(ob, net))
    except ValueError:
        return False
    return True


# ---- what to train


@dataclass(frozen=True)
class TrainingFiles:
    """What Train reads and writes."""

    poses: Path
    shipped: bool
    """The poses came with Neural IK."""
    character: Character
    """Its folder exists and gets the weights."""
    note: str

    @property
    def init(self) -> Path | None:
        """The weights for people, where the character has their bones and poses of its own; else training begins with nothing."""
        known = not self.shipped and density.shipped(self.character.skeleton) is not None
        return memory.PEOPLE_WEIGHTS if known else None


def why_no_training(context: bpy.types.Context) -> str:
    """Why Train cannot work, in words; empty where it can, as far as that is known without reading poses."""
    subject, keep = drawn(context), memory.memory
    if keep.unsaved and (
        subject is None or keep.poses is None or keep.poses.skeleton.fingerprint == subject.skeleton.fingerprint
    ):
        return "the poses in memory are not on disk yet: Save to Disk first"
    if subject is None or kept(subject).poses.exists() or earlier_poses().exists() or _human(subject):
        return ""
    return f"{subject.name} has no saved poses: Extract Data and Save to Disk first"


def training(context: bpy.types.Context) -> TrainingFiles:
    """What Train would read and write for the active character, whose folder is made.

    Poses that came with Neural IK train the built-in rig, whose weights any human can use. Raises ValueError or OSError.
    """
    ob, subject = active_object(context), active(context)
    if subject is not None and kept(subject).poses.exists():
        character = kept(subject)
        return TrainingFiles(character.poses, False, character, "")
    found = poses_to_load(ob)
    if subject is None or found.shipped:
        if subject is not None and found.shipped and not _human(subject):
            why = found.note or f"{subject.name} has no poses of its own; these poses came with Neural IK"
            raise ValueError(f"{why}: they cannot train it. Extract Data and Save to Disk first")
        skeleton = found.content.skeleton
        subject = Subject(name_for(skeleton, context, found.whose or BUILT_IN), skeleton, ())
    character = characters.keep(memory.folder(), subject.skeleton, subject.name)
    return TrainingFiles(found.path, found.shipped, character, found.note)


def _human(subject: Subject) -> bool:
    """Whether it has the bones of the built-in rig."""
    return set(ROLE_NAMES) <= set(subject.roles)
