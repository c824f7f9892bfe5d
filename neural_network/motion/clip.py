# SPDX-License-Identifier: GPL-3.0-or-later
"""Clip: one take of motion from a file, in one convention for every format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..core import contacts, tree
from ..core import forward_kinematics as fk
from ..core.messages import short
from ..core.rotations import matrix_from_quaternion

_UNITS = (
    ("metres", 1.0),
    ("centimetres", 0.01),
    ("CMU units of 1/0.45 inch", 0.0254 / 0.45),
    ("inches", 0.0254),
    ("decimetres", 0.1),
    ("feet", 0.3048),
    ("millimetres", 0.001),
)
_TALL = 1.7  # [m] height spanned by a person's joints; used only to choose between units
_PERSON = (1.2, 2.1)  # [m] heights of people, stylised ones included
_CREATURE = (0.5, 4.0)  # [m] heights accepted in metres and centimetres, the most common units
DOUBTFUL_AXIS = "which axis points up is not clear"
_SAMPLES = 48  # frames used to find the up axis and the height
_AT_ONCE = 1 << 10  # joints times frames posed at once
_CLEAR = 1.25  # ratio of the summed bone extents along two axes above which the larger one is clearly up
_SIDE_BRANCH = 0.3  # a branch beside a body, such as a control or a prop, is shorter than this share of it
_STALE = 1.0  # [body heights] along the ground from the root: an OFFSET of the hips beyond it belongs to no rest pose

UP_AXES = ("Y", "Z", "-Y", "-Z", "X", "-X")
"""The axes of a file that may point up."""
_TO_Z_UP = {
    "X": ((0, 0, -1), (0, 1, 0), (1, 0, 0)),
    "Y": ((1, 0, 0), (0, 0, -1), (0, 1, 0)),
    "Z": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "-X": ((0, 0, 1), (0, 1, 0), (-1, 0, 0)),
    "-Y": ((1, 0, 0), (0, 0, 1), (0, -1, 0)),
    "-Z": ((1, 0, 0), (0, -1, 0), (0, 0, -1)),
}


@dataclass(frozen=True)
class Clip:
    """One take. Rest axes are aligned with the file's world axes in every joint, as in BVH.

    Global rotations are ``G[j] = G[parent] @ R[j]`` and joint positions ``p[j] = p[parent] + G[parent] @ offset[j]``;
    a joint in ``translations`` uses that row in place of its offset. Formats with rest axes of their own (ASF) are
    converted on reading, so that other code need not know the format.
    """

    name: str
    """File name without its suffix."""
    names: tuple[str, ...]
    """(J) joint names as in the file, parents before children."""
    parents: np.ndarray
    """(J) int, -1 for a root."""
    offsets: np.ndarray
    """(J, 3) rest position relative to the parent [file units, file axes]; a root's is its rest position."""
    tips: dict[int, np.ndarray]
    """Joint index -> (3) offset of its End Site, if the file has one [file units, file axes]."""
    rotations: np.ndarray
    """(F, J, 4) unit quaternions (w, x, y, z), relative to the parent."""
    root_pos: np.ndarray
    """(F, 3) position of the first root's head [file units, file axes]."""
    fps: float
    """Frames a second."""
    up_axis: str = "Y"
    """The file axis that points up, one of ``UP_AXES``, found or given."""
    unit: float = 1.0
    """Metres in one file unit, found or given."""
    translations: dict[int, np.ndarray] = field(default_factory=dict)
    """Joint index -> (F, 3) offset in each frame, for joints other than the root whose offset changes."""
    warnings: tuple[str, ...] = ()
    """One sentence each, with the file, line and joint concerned."""
    repaired: tuple[int, ...] = ()
    """Frames (from 0) whose values were not finite and were filled in from their neighbours."""
    tremble: float | None = None
    """[deg] how much the joints trembled before the clip was filtered, 0 for sound motion; None if that was not measured."""

    @property
    def frames(self) -> int:
        """Number of frames, 0 for a skeleton without motion."""
        return len(self.rotations)


def checked_up_axis(up_axis: str | None) -> str | None:
    """``up_axis`` in capitals, None for none; ValueError unless it is one of ``UP_AXES``."""
    up = up_axis.upper() if up_axis else None
    if up is not None and up not in UP_AXES:
        raise ValueError(f"up axis: expected {', '.join(UP_AXES[:-1])} or {UP_AXES[-1]}, got {up_axis!r}")
    return up


def to_z_up(up_axis: str) -> np.ndarray:
    """(3, 3) rotation from file axes to armature axes (Z up) for a file in which ``up_axis`` points up."""
    return np.array(_TO_Z_UP[up_axis.upper()], float)


def level_axis(up_axis: str) -> int:
    """Index of the file axis along which heights are measured: 1 for Y and -Y, 2 for Z and -Z."""
    return "XYZ".index(up_axis[-1].upper())


def global_pose(clip: Clip, frames: slice | np.ndarray = slice(None)) -> tuple[np.ndarray, np.ndarray]:
    """Global rotations (F, J, 3, 3) and joint positions (F, J, 3) [file units, file axes] of the chosen frames."""
    local = matrix_from_quaternion(clip.rotations[frames])
    return fk.walk(clip.parents, local, moving_offsets(clip, frames), clip.root_pos[frames])


def clip_tremble(clip: Clip) -> float:
    """How much the joints tremble [deg], or did before a filter; 0 for sound motion. See :func:`.contacts.tremble`."""
    if clip.tremble is not None:
        return clip.tremble
    degrees = contacts.tremble(clip.rotations)
    return degrees if contacts.trembles(degrees, clip.fps) else 0.0


def moving_offsets(clip: Clip, frames: slice | np.ndarray = slice(None)) -> np.ndarray:
    """Offsets (J, 3), or (F, J, 3) where some joint's offset moves, of the chosen frames [file units, file axes]."""
    if not clip.translations:
        return clip.offsets
    out = np.tile(clip.offsets, (len(clip.root_pos[frames]), 1, 1))
    for i, moved in clip.translations.items():
        out[:, i] = moved[frames]
    return out


def rest_positions(clip: Clip) -> np.ndarray:
    """Joint positions (J, 3) with all rotations zero and the root at its offset [file units, file axes]."""
    return tree.sums(clip.parents, clip.offsets)


def without_figure(clip: Clip, made: Sequence[Clip]) -> list[str]:
    """Names of the roots of a clip that are in none of the ``made`` figures."""
    kept = {one.names[0] for one in made}
    return [clip.names[i] for i in np.flatnonzero(clip.parents < 0).tolist() if clip.names[i] not in kept]


def figures(clip: Clip, least: int = 5) -> list[Clip]:
    """One clip for each root with at least ``least`` joints; a clip with one root is returned unchanged.

    Several are called NAME.ROOT. Smaller trees (props, markers) are left out if there is any larger one.
    """
    roots = np.flatnonzero(clip.parents < 0)
    if len(roots) < 2:
        return [clip]
    tree = np.array(clip.parents)
    for i, parent in enumerate(clip.parents):
        tree[i] = i if parent < 0 else tree[parent]
    sizes = {int(root): int(np.sum(tree == root)) for root in roots}
    chosen = [root for root, size in sizes.items() if size >= least] or [max(sizes, key=lambda root: sizes[root])]
    out = []
    for root in chosen:
        name = clip.name if len(chosen) == 1 else f"{clip.name}.{clip.names[root]}"
        out.append(replace(with_joints(clip, np.flatnonzero(tree == root)), name=name))
    return out


def with_joints(clip: Clip, index: np.ndarray) -> Clip:
    """The clip with only the joints ``index`` (K): a root, which comes first, and joints whose parents are among them."""
    place = {int(old): new for new, old in enumerate(index)}
    root = int(index[0])
    still = np.broadcast_to(clip.offsets[root], (clip.frames, 3))
    return replace(
        clip,
        names=tuple(clip.names[i] for i in index),
        parents=np.array([-1 if clip.parents[i] < 0 else place[int(clip.parents[i])] for i in index]),
        offsets=clip.offsets[index],
        tips={place[i]: tip for i, tip in clip.tips.items() if i in place},
        rotations=clip.rotations[:, index],
        root_pos=clip.root_pos if root == 0 else clip.translations.get(root, still),
        translations={place[i]: moved for i, moved in clip.translations.items() if i in place and i != root},
    )


def without_rigid(
    parents: np.ndarray, offsets: np.ndarray, tips: Mapping[int, np.ndarray], rigid: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[int, np.ndarray]]:
    """A tree reduced to ``most`` joints, if possible, without moving the joints that remain.

    Joints that never turn or move (mask ``rigid`` (J)) are folded into their children, the shortest first; roots
    stay. Returns the indices (K) of the joints that stay, and their parents, offsets and tips.
    """
    lengths = np.linalg.norm(offsets, axis=1)
    loose = np.flatnonzero(rigid & (parents >= 0))
    gone = np.zeros(len(parents), bool)
    gone[loose[np.argsort(lengths[loose], kind="stable")][: max(0, len(parents) - most)]] = True
    above, moved = np.array(parents), np.array(offsets)
    for i, parent in enumerate(parents):
        if parent >= 0 and gone[parent]:
            above[i], moved[i] = above[parent], moved[parent] + offsets[i]
    kept = np.flatnonzero(~gone)
    place = np.cumsum(~gone) - 1
    ends = {int(place[i]): tip for i, tip in tips.items() if not gone[i]}
    inner = set(above[kept].tolist())
    for i in np.flatnonzero(gone).tolist():
        if above[i] not in inner:
            ends.setdefault(int(place[above[i]]), moved[i])
    return kept, np.where(above[kept] < 0, -1, place[above[kept]]), moved[kept], ends


def body_top(clip: Clip) -> int:
    """The joint that carries the figure through the world: the first root, or a joint below it that moves instead of it.

    Some programs write still joints ("Reference", "Armature") above the hips; what stands beside the hips there (controls,
    props) is much smaller than the body.
    """
    best, at = 0, 0
    if not clip.frames or not clip.translations:
        return best
    farthest = float(np.ptp(clip.root_pos, axis=0).max())
    reach = _reach(clip)
    while len(children := np.flatnonzero(clip.parents == at)):
        at = int(children[np.argmax(reach[children])])
        beside = reach[children[children != at]]
        if beside.max(initial=0.0) > _SIDE_BRANCH * reach[at] or not reach[at] > 0:
            break
        if at in clip.translations and (moved := float(np.ptp(clip.translations[at], axis=0).max())) >= farthest:
            best, farthest = at, moved
    return best


def _reach(clip: Clip) -> np.ndarray:
    """Length (J) of the longest chain of bones below each joint, its own bone not counted."""
    lengths = np.linalg.norm(clip.offsets, axis=-1)
    reach = np.zeros(len(lengths))
    for i in range(len(lengths) - 1, 0, -1):
        if clip.parents[i] >= 0:
            reach[clip.parents[i]] = max(reach[clip.parents[i]], reach[i] + lengths[i])
    return reach


def joint_motion(clip: Clip, joint: int) -> tuple[np.ndarray, np.ndarray]:
    """Global rotations (F, 3, 3) and positions (F, 3) of one joint [file units, file axes]."""
    chain = tree.chain(clip.parents, joint)[::-1]
    root = chain[0]
    if len(chain) == 1 and root == 0:
        return matrix_from_quaternion(clip.rotations[:, 0]), clip.root_pos
    at_rest = np.broadcast_to(clip.offsets[root], (clip.frames, 3))
    upper = replace(
        clip,
        names=tuple(clip.names[i] for i in chain),
        parents=np.arange(len(chain)) - 1,
        offsets=clip.offsets[chain],
        rotations=clip.rotations[:, chain],
        root_pos=clip.root_pos if root == 0 else clip.translations.get(root, at_rest),
        translations={k: clip.translations[i] for k, i in enumerate(chain) if k and i in clip.translations},
    )
    rotations, positions = global_pose(upper)
    return rotations[:, -1], positions[:, -1]


def without_stale_offset(clip: Clip) -> tuple[Clip, str]:
    """The clip with the OFFSET of its moving joint above the origin, and a sentence; unchanged and "" where it is sound.

    Some programs write into the OFFSET of hips below a still root where the actor stood in some other take. It is no bone,
    no rest pose, and would make the body hang far beside its own armature.
    """
    top = body_top(clip)
    if top == 0:
        return clip, ""
    height, up = body_height(clip), level_axis(clip.up_axis)
    sideways = np.delete(clip.offsets[top], up)
    if not height > 0 or np.linalg.norm(sideways) <= _STALE * height:
        return clip, ""
    offsets = np.array(clip.offsets, dtype=np.float64)
    offsets[top] = 0.0
    offsets[top, up] = clip.offsets[top, up]
    if abs(offsets[top, up]) > 2 * height:
        offsets[top, up] = np.median(clip.translations[top][:, up])
    words = (
        f"its OFFSET lies {np.linalg.norm(sideways) / height:.1f} body heights beside the root, where no rest pose is"
    )
    return replace(clip, offsets=offsets), f"{words}; it was moved above the root"


def body_joints(clip: Clip) -> np.ndarray:
    """Mask (J) of joints that belong to the body: without leaves directly below the root or farther away than any limb is long.

    Such leaves are helpers (rig controls, props, damaged offsets) and would spoil the guesses of size. So would joints
    above or beside the one that carries the figure (:func:`body_top`).
    """
    lengths = np.linalg.norm(clip.offsets, axis=-1)
    top = body_top(clip)
    below = _from(clip, top)
    top_bone = clip.parents < 0 if top == 0 else np.arange(len(below)) == top
    has_child = np.zeros(len(clip.parents), bool)
    has_child[clip.parents[clip.parents >= 0]] = True
    inner = below & ~top_bone & has_child
    if not inner.any():
        return below
    far = (lengths > 1.8 * max(lengths[inner].max(), 1e-9)) | (clip.parents == top)
    return below & (has_child | ~far | top_bone)


def _from(clip: Clip, top: int) -> np.ndarray:
    """Mask (J) of a joint and all below it; of all joints, also of other roots, for the first one."""
    below = np.full(len(clip.parents), top == 0)
    below[top] = True
    for i, parent in enumerate(clip.parents):
        below[i] |= parent >= 0 and below[parent]
    return below


def helper_notes(clip: Clip) -> list[tuple[str, str]]:
    """A sentence and the joint it is about, for each leaf too far away to be a limb."""
    top = body_top(clip)
    far = np.flatnonzero(~body_joints(clip) & (clip.parents != top) & _from(clip, top))
    lengths = np.linalg.norm(clip.offsets, axis=-1)
    notes = []
    for i in far[:3]:
        other = _counterpart(clip.names, clip.names[i])
        beside = "" if other is None else f", {short(clip.names[other])!r} on the other side only {lengths[other]:.4g}"
        what = f"it stands {lengths[i]:.4g} units from its parent{beside}; treated as a helper, not as a limb"
        notes.append((what, f"joint {short(clip.names[i])}"))
    return notes


def _counterpart(names: tuple[str, ...], name: str) -> int | None:
    for left, right in (("Left", "Right"), ("left", "right"), ("LEFT", "RIGHT"), ("L", "R"), ("l", "r")):
        for this, other in ((left, right), (right, left)):
            swapped = name.replace(this, other, 1)
            if swapped != name and swapped in names:
                return names.index(swapped)
    return None


def _sampled(clip: Clip) -> np.ndarray:
    return (
        np.unique(np.linspace(0, clip.frames - 1, min(_SAMPLES, clip.frames)).astype(int))
        if clip.frames
        else np.zeros(0, int)
    )


def _placed(clip: Clip, frames: np.ndarray) -> Iterator[np.ndarray]:
    """Joint positions (n, J, 3) of ``frames``, a few frames at a time, because some files have thousands of joints."""
    step = max(1, _AT_ONCE // len(clip.names))
    for at in range(0, len(frames), step):
        yield global_pose(clip, frames[at : at + step])[1]


def guess_up_axis(clip: Clip) -> tuple[str, str]:
    """The file axis that points up or down, 'Y' or 'Z', and a sentence if that is doubtful (else an empty one).

    The bones of a standing figure extend most along the vertical, because of legs and trunk. Both the frames and the rest
    pose are examined. If they disagree (a lying figure, a rest pose in other axes) or neither is clear, the axis is the one
    along which the lowest joint stays closest to one level near zero: the floor.
    """
    mask = body_joints(clip) & (clip.parents >= 0)
    mask[body_top(clip)] = False
    if not mask.any():
        return "Y", "a single joint does not tell which axis points up; Y was assumed"
    clear = np.log(_CLEAR)
    rest = _lean(np.abs(clip.offsets[mask]).sum(axis=0))
    frames = _sampled(clip)
    doubt = DOUBTFUL_AXIS + ", {} was taken; set it if that is wrong"
    if not len(frames):
        chosen = "Y" if rest >= 0 else "Z"
        return chosen, doubt.format(chosen) if abs(rest) < clear else ""
    leans, lows = [], []
    for placed in _placed(clip, frames):
        bones = placed[:, mask] - placed[:, clip.parents[mask]]
        leans.append(_lean(np.abs(bones).sum(axis=1)))
        lows.append(placed[:, body_joints(clip)].min(axis=1))
    posed = float(np.median(np.concatenate(leans)))
    agree = rest * posed > 0 and max(abs(rest), abs(posed)) > clear
    if agree:
        return "Y" if posed > 0 else "Z", ""
    stature = _lean(np.ptp(rest_positions(clip)[mask], axis=0))
    if len(frames) == 1 and abs(stature) > clear:  # one pose may lie, and shows no floor
        chosen = "Y" if stature > 0 else "Z"
        return chosen, doubt.format(chosen)
    if abs(posed) > clear > abs(rest):
        return "Y" if posed > 0 else "Z", ""
    if abs(rest) > clear > abs(posed):
        return "Y" if rest > 0 else "Z", ""
    lowest = np.concatenate(lows)
    level = np.ptp(lowest, axis=0) + np.abs(np.median(lowest, axis=0))
    chosen = "Y" if level[1] <= level[2] else "Z"
    return chosen, doubt.format(chosen)


def _lean(extent: np.ndarray) -> np.ndarray:
    """Log of how much more ``extent`` (..., 3) has along Y than along Z."""
    return np.log((extent[..., 1] + 1e-12) / (extent[..., 2] + 1e-12))


def body_height(clip: Clip) -> float:
    """Height of the figure [file units]: the extent of its joints and tips along ``up_axis``, without helpers.

    It is that of the rest pose if it stands, else of the tallest frames, and at least 0.8 of the longest chain of bones,
    in case the figure only lies. 0 for a single joint without a tip.
    """
    axis = level_axis(clip.up_axis)
    mask = body_joints(clip)
    rest = rest_positions(clip)
    ends = [rest[i] + tip for i, tip in clip.tips.items() if mask[i] and np.abs(tip).max() <= np.abs(rest).max()]
    span = np.ptp(np.concatenate([rest[mask], np.array(ends).reshape(-1, 3)]), axis=0)
    ahead, across = (3 - axis, 0) if axis else (2, 1)
    if span[axis] > _CLEAR * span[ahead] and span[axis] > 0.7 * span[across]:
        return float(span[axis])
    bones = np.linalg.norm(clip.offsets, axis=-1) * (clip.parents >= 0) * mask
    bones[body_top(clip)] = 0.0
    chain = tree.sums(clip.parents, bones)
    height = max(float(span[axis]), 0.8 * float(chain.max()))
    frames = _sampled(clip)
    if len(frames):
        spans = np.concatenate([np.ptp(placed[:, mask, axis], axis=1) for placed in _placed(clip, frames)])
        height = max(height, float(np.percentile(spans, 90)))
    return height


def guess_unit(clip: Clip) -> tuple[float, str]:
    """Metres in one file unit, found from the height of the figure, and a sentence if that is a guess."""
    height = body_height(clip)
    if not 1e-9 < height < 1e12:
        return 1.0, "the figure has no height, so its unit is not known; metres were assumed"
    name, unit = min(_UNITS, key=lambda entry: abs(np.log(height * entry[1] / _TALL)))
    if _PERSON[0] <= height * unit <= _PERSON[1]:
        return unit, ""
    for name, unit in _UNITS[:2]:
        if _CREATURE[0] <= height * unit <= _CREATURE[1]:
            return unit, f"the figure is {height:.4g} units high; {name} were assumed, set the unit if that is wrong"
    guess = f"no common unit explains its height of {height:.4g} units; it was scaled to {_TALL:g} m"
    return _TALL / height, f"{guess}, set the unit if you know it"
