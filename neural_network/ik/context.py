# SPDX-License-Identifier: GPL-3.0-or-later
"""Inputs and outputs of the network: targets, root, ground, phase and task become inputs; outputs become a pose.

Everything is in the *root frame*: origin at the Hips' head, heading removed, Z up, lengths divided by the leg length.
Training and solving call the same :func:`features` and :func:`decode`; :func:`prepare` converts a PoseSet for them, and
:func:`targets_of` gives the targets that a pose meets. F frames of a PoseSet, N poses of a batch, J bones, E effectors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core import contacts, rotations
from ..core import forward_kinematics as fk
from ..core.skeleton import Skeleton
from ..core.tree import limb
from ..motion.pose_set import PoseSet
from ..motion.tasks import task_value

SHORTEST_HEADING = (
    0.2  # length of the left axis projected on the ground; if shorter, the heading of the frame before is kept
)


@dataclass(frozen=True)
class Layout:
    """Which inputs and outputs a network has; best.npy stores the name of its layout."""

    name: str
    orientations: bool = True
    """The targets' orientations are inputs."""
    mask: bool = False
    """Two 0/1 inputs for each effector: position given, orientation given. Inputs that are not given are 0."""
    free_root: bool = False
    """The given Hips are only a starting point: the network outputs their position (3 more outputs) and rotation."""
    hips_frame: bool = True
    """Targets are in the Hips' own axes instead of the upright root frame, so that a body upside down is not a new situation."""
    lengths: bool = False
    """The limbs' lengths are inputs, two for each effector, so that one network serves many proportions."""
    places: bool = False
    """Where limbs begin and end in the T-pose are inputs too, six for each effector, for rigs whose joints are elsewhere."""

    def input_count(self, skeleton: Skeleton) -> int:
        """Number of inputs for a rig."""
        effectors, feet = len(skeleton.effectors), len(skeleton.feet)
        return sum(self._sizes(effectors, feet).values())

    def _sizes(self, effectors: int, feet: int) -> dict[str, int]:
        """Numbers of inputs by what they hold, in their order."""
        return {
            "targets": (6 if self.orientations else 3) * effectors,
            "root": 6,
            "ground": 6 * feet,
            "phase": 1,
            "task": 1,
            "mask": 2 * effectors if self.mask else 0,
            "body": (2 * self.lengths + 6 * self.places) * effectors,
        }

    def output_count(self, skeleton: Skeleton) -> int:
        """Number of outputs for a rig: an axis-angle for each bone, the Hips' first, and a shift if the root is free."""
        return 3 * skeleton.count + (3 if self.free_root else 0)

    def columns(self, skeleton: Skeleton) -> dict[str, np.ndarray]:
        """Input columns by what they hold: targets, root, ground, phase, task, mask, body; ``flags`` are the 0/1 ones."""
        feet = len(skeleton.feet)
        sizes = self._sizes(len(skeleton.effectors), feet)
        ends = np.cumsum(list(sizes.values()))
        out = {name: np.arange(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}
        ground = out["ground"].reshape(feet, 6)
        out["flags"] = np.concatenate([ground[:, 4:].ravel(), out["mask"]])
        return out

    def rotation_columns(self, skeleton: Skeleton) -> np.ndarray:
        """Input columns that hold the targets' rotations; none in a layout without them."""
        return self.columns(skeleton)["targets"].reshape(len(skeleton.effectors), -1)[:, 3:].ravel()


LAYOUTS = {
    layout.name: layout
    for layout in (
        Layout("reference", hips_frame=False),
        Layout("hips"),
        Layout("positions", orientations=False),
        Layout("masked", mask=True),
        Layout("free", mask=True, free_root=True),
        Layout("bodies", lengths=True),
        Layout("people", lengths=True, places=True),
    )
}


@dataclass(frozen=True)
class Samples:
    """A PoseSet prepared for training: core rotations, the root's heading removed, contacts found."""

    rot: np.ndarray
    """(F, J, 3) core rotations [rad]; the root's is without heading."""
    low: np.ndarray
    """(F) height of the lowest foot above the ground [leg lengths], from which follows the height of the Hips."""
    grounded: np.ndarray
    """(F, feet) 0/1."""
    desired: np.ndarray
    """(F, feet) 0/1, grounded 0.1 s later."""
    phase: np.ndarray
    """(F) 0 to 1 through the clip."""
    task: np.ndarray
    """(F) position in the task table, 0 to 1."""
    heading: np.ndarray
    """(F) [rad] the heading that was removed, about core up."""
    root_pos: np.ndarray
    """(F, 3) the root's head [m, core axes]."""
    ground: np.ndarray
    """(F) height of the floor under the clip [m, core axes]."""


@dataclass(frozen=True)
class Targets:
    """Targets of a batch in the root frame; components first, poses on the last axis."""

    positions: np.ndarray
    """(3, E, N) head of each effector [leg lengths]."""
    turned: np.ndarray
    """(3, 3, E, N) rotation of each effector from the T-posed rest."""
    root: np.ndarray
    """(3, 3, N) rotation of the Hips from the T-posed rest, heading removed."""
    heights: np.ndarray
    """(feet, N) height of each foot above the ground, less its height at rest [leg lengths]."""
    grounded: np.ndarray
    """(feet, N) 0/1 foot on the ground."""
    desired: np.ndarray
    """(feet, N) 0/1 the same, 0.1 s later."""
    phase: np.ndarray
    """(N) 0 to 1."""
    task: np.ndarray
    """(N) 0 to 1."""
    normals: np.ndarray | None = None
    """(3, feet, N) ground normal under each foot; straight up where absent."""
    given: np.ndarray | None = None
    """(2, E, N) 0/1: position given, orientation given; all where absent."""
    body: np.ndarray | None = None
    """(B, N) what the layout is told of the body, see :func:`body_inputs`; the skeleton's own where absent."""


def headings(root: np.ndarray, starts: np.ndarray | None = None) -> np.ndarray:
    """Heading (F) [rad] of root rotations (F, 3, 3) [core axes], in the order of the frames.

    The heading is the direction of the root's left axis projected on the ground. Where that projection is shorter than
    SHORTEST_HEADING, the heading of the frame before is kept; the first frame and those in ``starts``, which have none before
    them, use the root's twist about up.
    """
    left = root[:, :2, 0]
    out = np.arctan2(left[:, 1], left[:, 0])
    weak = np.linalg.norm(left, axis=1) < SHORTEST_HEADING
    if not np.any(weak):
        return out
    first = np.zeros(len(out), bool)
    first[0] = True
    if starts is not None:
        first[starts] = True
    twist = rotations.twist_about(rotations.axis_angle_from_matrix(root), np.array([0.0, 0, 1]))
    for frame in np.flatnonzero(weak):
        out[frame] = twist[frame] if first[frame] else out[frame - 1]
    return out


def prepare(poses: PoseSet, older_ground: bool = False) -> Samples:
    """Convert a PoseSet for training and testing.

    Contacts are found by height and speed (see :mod:`..core.contacts`), with ``older_ground`` by the height of the foot's head
    alone; in motion that trembles, by smoothed heights and speeds. A clip's own ground, where the PoseSet has one, is used;
    otherwise it is estimated from the feet. Without feet the
    ground is at 0.
    """
    rig = poses.skeleton
    rot = rig.to_core(poses.rot)
    starts = np.array([poses.rows(c).start for c in range(len(poses.clip_names))])
    starts = starts[starts < poses.frames]
    turned, heads = fk.forward(rig, rot)
    root_pos = poses.root_pos @ rig.axes.T
    heading = headings(turned[:, 0], starts)
    up = np.array([0.0, 0, 1])
    unturned = rotations.matrix_from_axis_angle(-heading[:, None] * up) @ turned[:, 0]
    rot[:, 0] = rotations.axis_angle_from_matrix(unturned)
    feet, toes = np.array(rig.feet, int), np.array(rig.toes, int)
    world = heads + root_pos[:, None]
    above = contacts.foot_heights(world[:, feet], world[:, toes], rig.foot_rest)
    ground = np.zeros(poses.frames)
    grounded = np.zeros((poses.frames, len(feet)))
    desired = np.zeros_like(grounded)
    phase, task = np.zeros(poses.frames), np.zeros(poses.frames)
    for c, name in enumerate(poses.clip_tasks):
        rows = poses.rows(c)
        count = rows.stop - rows.start
        task[rows] = task_value(name)
        if count == 0:
            continue
        phase[rows] = np.arange(count) / max(1, count - 1)
        if not len(feet):
            continue
        given, fps = None if poses.ground is None else poses.ground[c], poses.clip_fps[c]
        ground[rows] = contacts.ground_height(above[rows]) if given is None else given
        if older_ground:
            ankles = world[rows][:, feet, 2] - ground[rows, None]
            grounded[rows] = contacts.older_grounded(ankles, rig.leg_length)
        else:
            points, high = world[rows][:, toes], above[rows]
            speeds = contacts.backward_speed(points, fps)
            trembling = contacts.foot_tremble(world[rows][:, [*feet, *toes]], fps, rig.leg_length)
            if trembling:
                speeds, high = contacts.steadied(points, high, fps, trembling)
                ground[rows] = contacts.ground_height(high) if given is None else given
            grounded[rows] = contacts.grounded(high - ground[rows, None], speeds, rig.leg_length)
        desired[rows] = contacts.desired(grounded[rows], fps)
    low = above.min(axis=1, initial=np.inf) - ground if len(feet) else np.zeros(poses.frames)
    return Samples(
        rot=rot.astype(np.float32),
        low=(low / rig.leg_length).astype(np.float32),
        grounded=grounded.astype(np.float32),
        desired=desired.astype(np.float32),
        phase=phase.astype(np.float32),
        task=task.astype(np.float32),
        heading=heading,
        root_pos=root_pos,
        ground=ground,
    )


def targets_of(
    skeleton: Skeleton,
    turned: np.ndarray,
    heads: np.ndarray,
    low: np.ndarray,
    grounded: np.ndarray,
    desired: np.ndarray,
    phase: np.ndarray,
    task: np.ndarray,
) -> Targets:
    """The targets that poses meet exactly; ``turned`` (3, 3, J, N), ``heads`` (3, J, N) [leg lengths] from forward kinematics.

    ``low`` (N) is the height of the lowest foot above the ground [leg lengths], which places the ground under the pose.
    ``grounded`` and ``desired`` are (N, feet), ``phase`` and ``task`` (N).
    """
    bones = np.array(skeleton.effectors)
    feet, toes = np.array(skeleton.feet, int), np.array(skeleton.toes, int)
    rest = (skeleton.foot_rest / skeleton.leg_length).astype(heads.dtype)
    above = np.minimum(heads[2, feet] - rest[:, :1], heads[2, toes] - rest[:, 1:])
    heights = above - above.min(axis=0) + low if len(feet) else above
    return Targets(heads[:, bones], turned[:, :, bones], turned[:, :, 0], heights, grounded.T, desired.T, phase, task)


def guess_root(skeleton: Skeleton, positions: np.ndarray, turned: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """An estimate of the Hips from the targets alone: head (3, N) and heading (N) [rad], in any frame whose Z is up.

    ``positions`` (3, E, N) and ``turned`` (3, 3, E, N) as in Targets, all of them given. The head is between the feet and the
    topmost effector, in the proportion of the T-pose; left is towards the targets on the left, and where the effectors' own
    left axes point.
    """
    rest = skeleton.rest_core[list(skeleton.effectors), :3, 3]
    feet = np.array([e in skeleton.feet for e in skeleton.effectors])
    share = np.zeros(len(rest))
    if np.any(feet) and not np.all(feet):
        top = int(np.argmax(np.where(feet, -np.inf, rest[:, 2])))
        low, high = rest[feet, 2].mean(), rest[top, 2]
        share[top] = (skeleton.rest_core[0, 2, 3] - low) / max(high - low, 1e-6)
        share[feet] = (1 - share[top]) / feet.sum()
    else:
        share[:] = 1 / len(rest)
    head = np.einsum("e,cen->cn", share, positions).astype(positions.dtype)
    side = np.sign(rest[:, 0] - skeleton.rest_core[0, 0, 3]) * (np.abs(rest[:, 0]) > 0.05 * skeleton.leg_length)
    left = np.einsum("e,cen->cn", side, positions)[:2]
    if turned is not None:
        left = left + turned[:2, 0].sum(axis=1)
    return head, np.arctan2(left[1], left[0]).astype(positions.dtype)


def features(layout: Layout, skeleton: Skeleton, targets: Targets) -> np.ndarray:
    """The inputs (N, layout.input_count) for ``targets``, in the order targets, root, ground, phase, task, mask, body."""
    positions, turned = targets.positions, targets.turned
    if layout.hips_frame:
        back = targets.root.swapaxes(0, 1)[:, :, None]
        positions = back[:, 0] * positions[0] + back[:, 1] * positions[1] + back[:, 2] * positions[2]
        if layout.orientations:
            turned = fk.compose_components(np.broadcast_to(back, turned.shape), turned)
    count = positions.shape[-1]
    effectors, feet = len(skeleton.effectors), len(skeleton.feet)
    width = 6 if layout.orientations else 3
    out = np.empty((layout.input_count(skeleton), count), positions.dtype)
    block = out[: width * effectors].reshape(effectors, width, count)
    block[:, :3] = positions.swapaxes(0, 1)
    if layout.orientations:
        block[:, 3:] = rotations.axis_angle_components(turned).swapaxes(0, 1)
    at = width * effectors
    out[at : at + 3] = -targets.root[:, 1]  # the rest faces -Y
    out[at + 3 : at + 6] = targets.root[:, 2]
    ground = out[at + 6 : at + 6 + 6 * feet].reshape(feet, 6, count)
    ground[:, 0] = targets.heights
    if targets.normals is None:
        ground[:, 1:3] = 0
        ground[:, 3] = 1
    else:
        ground[:, 1:4] = targets.normals.swapaxes(0, 1)
    ground[:, 4], ground[:, 5] = targets.grounded, targets.desired
    at += 6 + 6 * feet
    out[at], out[at + 1] = targets.phase, targets.task
    at += 2
    out[at + (2 * effectors if layout.mask else 0) :] = (
        own_body(layout, skeleton) if targets.body is None else targets.body
    )
    if layout.mask:
        given = targets.given if targets.given is not None else np.ones((2, effectors, count), positions.dtype)
        out[at : at + 2 * effectors] = given.swapaxes(0, 1).reshape(2 * effectors, count)
        block[:, :3] *= given[0][:, None]
        block[:, 3:] *= given[1][:, None]
        for k, foot in enumerate(skeleton.feet):  # without a target, height and contact of a foot are not known either
            known = given[0][skeleton.effectors.index(foot)]
            ground[k, 0] *= known
            ground[k, 4:] *= known
    return out.T


def own_body(layout: Layout, skeleton: Skeleton) -> np.ndarray:
    """(B, 1) :func:`body_inputs` of the skeleton itself."""
    return body_inputs(layout, skeleton, skeleton.offsets.T[:, :, None] / skeleton.leg_length)


def body_inputs(layout: Layout, skeleton: Skeleton, offsets: np.ndarray) -> np.ndarray:
    """(B, N) what ``layout`` is told of bodies with the offsets (3, J, N) [leg lengths].

    Lengths of the upper and the lower bone of each effector's limb; then, in the T-pose and seen from the Hips, the place where
    each limb begins and that of its effector. B is 0 for layouts that know one body.
    """
    limbs = np.array([limb(skeleton.parents, skeleton.rest_arm[:, :3, 3], e) for e in skeleton.effectors])
    found = [np.zeros((0, offsets.shape[-1]), offsets.dtype)]
    if layout.lengths:
        found.append(np.sqrt(np.sum(offsets[:, limbs[:, 1:].ravel()] ** 2, axis=0)))
    if layout.places:
        heads = t_pose_heads(skeleton, offsets)[:, limbs[:, ::2].ravel()]
        found.append(heads.transpose(1, 0, 2).reshape(-1, heads.shape[-1]))
    return np.concatenate(found)


def t_pose_heads(skeleton: Skeleton, offsets: np.ndarray) -> np.ndarray:
    """(3, J, N) heads in the T-pose, seen from the Hips' head, of bodies with the offsets (3, J, N)."""
    heads = offsets.copy()
    heads[:, 0] = 0
    for j in range(1, skeleton.count):
        heads[:, j] += heads[:, skeleton.parents[j]]
    return heads


def decode(
    layout: Layout, skeleton: Skeleton, outputs: np.ndarray, root: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """Outputs (N, layout.output_count) to core rotations (3, J, N) [rad] and, with a free root, its shift (3, N) [leg lengths].

    The Hips' rotation is the given ``root`` (3, 3, N), and the network's three outputs for it are ignored; with a free root
    they turn the given one further.
    """
    rot = np.ascontiguousarray(outputs.T)[: 3 * skeleton.count].reshape(skeleton.count, 3, -1).swapaxes(0, 1).copy()
    if not layout.free_root:
        rot[:, 0] = rotations.axis_angle_components(root)
        return rot, None
    turn = rotations.matrix_components(rot[:, 0])
    rot[:, 0] = rotations.axis_angle_components(fk.compose_components(turn, root))
    return rot, outputs.T[3 * skeleton.count :]
