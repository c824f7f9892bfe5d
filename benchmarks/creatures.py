# SPDX-License-Identifier: GPL-3.0-or-later
"""Synthetic creatures that walk, crawl, swim and fly, and how well each is learned: python -m benchmarks.creatures

A creature is a tree of bones with everything that animal rigs have: a root on the ground, controls beside the limbs, ears,
zero-length bones and twist bones. Its actions are sums of sines, so nothing here is taken from anybody's motion. For every
creature the effectors are proposed from the tree alone, a network is trained, and its errors on the held-out part are
printed beside those of simple baselines, in per cent of the body length.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from neural_network.core import forward_kinematics as fk
from neural_network.core import tree
from neural_network.core.reference_rig import rest_orientation
from neural_network.core.rotations import axis_angle_from_matrix, matrix_from_axis_angle
from neural_network.core.skeleton import Skeleton, make
from neural_network.learning.arguments import positive
from neural_network.motion import pose_set
from neural_network.motion.pose_set import PoseSet
from neural_network.rigs.creatures import controlled_bones, find_effectors

FPS = 24.0
SECONDS = 4.0  # of one action
CLIPS = ("walk", "run", "look around", "stretch", "shake", "turn")


@dataclass(frozen=True)
class Creature:
    """All bones of a rig, including those that only help the animator."""

    names: tuple[str, ...]
    parents: np.ndarray
    heads: np.ndarray
    """(N, 3) [m], Z up, facing -Y."""
    effectors: frozenset[str]
    """The bones that a person would drag."""
    feet: frozenset[str]


def grow(text: str, effectors: str, feet: str = "") -> Creature:
    """A creature from lines "name x y z", indented below their parent; ``*`` in a name makes a left and a right bone."""
    names: list[str] = []
    parents: list[int] = []
    heads: list[list[float]] = []
    open_bones: list[tuple[int, dict[str, int]]] = []
    for line in text.strip("\n").splitlines():
        depth = len(line) - len(line.lstrip())
        name, *place = line.split()
        open_bones = [(d, made) for d, made in open_bones if d < depth]
        above = open_bones[-1][1] if open_bones else {}
        made: dict[str, int] = {}
        x, y, z = map(float, place)
        for side in ("L", "R") if "*" in name else ("",):
            parents.append(above.get(side, above.get("", -1)))
            made[side] = len(names)
            names.append(name.replace("*", side))
            heads.append([-x if side == "R" else x, y, z])
        open_bones.append((depth, made))
    order = _depth_first(parents)
    back = {old: new for new, old in enumerate(order)}
    above_now = np.array([-1 if parents[j] < 0 else back[parents[j]] for j in order])
    return Creature(
        tuple(names[j] for j in order),
        above_now,
        np.array([heads[j] for j in order]),
        frozenset(_both(effectors)),
        frozenset(_both(feet)),
    )


def _both(words: str) -> list[str]:
    return [w.replace("*", side) for w in words.split() for side in (("L", "R") if "*" in w else ("",))]


def _depth_first(parents: Sequence[int]) -> list[int]:
    out: list[int] = []
    todo = [j for j in range(len(parents) - 1, -1, -1) if parents[j] < 0]
    while todo:
        j = todo.pop()
        out.append(j)
        todo.extend(k for k in range(len(parents) - 1, -1, -1) if parents[k] == j)
    return out


DOG = """
root 0 0 0
 pelvis 0 .3 .55
  back1 0 .15 .57
   back2 0 0 .57
    chest 0 -.15 .56
     neck1 0 -.28 .62
      neck2 0 -.34 .70
       head 0 -.40 .78
        ear_* .05 -.38 .84
        jaw 0 -.42 .75
         jaw_end 0 -.52 .72
        snout 0 -.48 .77
         nose 0 -.56 .75
     blade_* .06 -.2 .56
      fore_upper_* .08 -.24 .45
       fore_twist_* .08 -.2 .37
        fore_lower_* .08 -.16 .30
         fore_paw_* .08 -.18 .05
          fore_toe_* .08 -.24 .01
  tail1 0 .36 .56
   tail2 0 .46 .54
    tail3 0 .56 .50
     tail4 0 .66 .45
  thigh_* .08 .3 .50
   shin_* .08 .22 .32
    hock_* .08 .38 .2
     hind_paw_* .08 .34 .04
      hind_toe_* .08 .27 .01
 IK_hind_* .08 .34 .04
 IK_fore_* .08 -.18 .05
"""

SPIDER = """
body 0 0 .15
 abdomen1 0 .08 .17
  abdomen2 0 .16 .18
   abdomen3 0 .26 .16
 head 0 -.08 .15
  fang_* .02 -.12 .13
"""
for _leg, _y in enumerate((-0.06, -0.02, 0.03, 0.07)):
    _out = (_y - 0.005) * 3
    SPIDER += f""" coxa{_leg}_* .04 {_y} .15
  femur{_leg}_* .08 {_y + 0.2 * _out} .16
   tibia{_leg}_* .2 {_y + 0.6 * _out} .26
    tarsus{_leg}_* .3 {_y + _out} .08
     claw{_leg}_* .33 {_y + 1.1 * _out} 0
"""

SNAKE = "\n".join(f"{' ' * i}seg{i:02d} 0 {0.8 - 0.07 * i:.2f} .03" for i in range(24))

FISH = """
spine0 0 0 .5
 spine1 0 -.12 .5
  skull 0 -.24 .5
   mouth 0 -.34 .49
  fin1_* .08 -.14 .44
   fin2_* .16 -.1 .40
    fin3_* .24 -.06 .37
 rear1 0 .12 .5
  rear2 0 .24 .5
   rear3 0 .34 .5
    caudal 0 .42 .5
     caudal_end 0 .54 .5
 dorsal 0 .02 .6
  dorsal_end 0 .1 .68
"""

DRAGON = """
Bone 0 0 0
 Bone.001 0 .5 1.2
  Bone.002 0 .1 1.25
   Bone.003 0 -.3 1.3
    Bone.004 0 -.6 1.5
     Bone.005 0 -.8 1.8
      Bone.006 0 -.95 2.1
       Bone.007 0 -1.05 2.3
        horn.* .08 -1 2.45
        upper_jaw 0 -1.3 2.25
         upper_jaw_end 0 -1.5 2.2
    W1.* .2 -.3 1.4
     W2.* .7 -.1 1.8
      W3.* 1.2 -.3 1.9
       W4.* 1.8 .1 1.85
        W5.* 2.4 .5 1.7
       F1.* 1.6 .5 1.7
        F2.* 1.8 .9 1.6
       G1.* 1.3 .6 1.6
        G2.* 1.4 1 1.5
    A1.* .2 -.35 1.1
     A2.* .25 -.2 .6
      A3.* .25 -.4 .1
       A4.* .25 -.55 .02
  T1 0 .8 1.15
   T2 0 1.2 1.0
    T3 0 1.6 .85
     T4 0 2.0 .75
      T5 0 2.4 .7
  L1.* .25 .5 1.1
   L2.* .3 .3 .7
    L3.* .3 .7 .35
     L4.* .3 .6 .06
      L5.* .3 .42 .02
"""

CREATURES = {
    "dog": grow(DOG, "fore_paw_* hind_paw_* tail4 head nose", "fore_paw_* hind_paw_*"),
    "spider": grow(
        SPIDER, " ".join(f"claw{i}_*" for i in range(4)) + " abdomen3 head", " ".join(f"claw{i}_*" for i in range(4))
    ),
    "snake": grow(SNAKE, "seg23 seg12"),
    "fish": grow(FISH, "fin3_* caudal_end dorsal_end skull mouth"),
    "dragon": grow(DRAGON, "A3.* L4.* W5.* T5 Bone.007 upper_jaw_end", "A3.* L4.*"),
}


def rest(creature: Creature) -> np.ndarray:
    """(N, 4, 4) rest matrices [m]: every bone points to its first child, a leaf in the direction of its parent."""
    out = np.tile(np.eye(4), (len(creature.names), 1, 1))
    out[:, :3, 3] = creature.heads
    for j, parent in enumerate(creature.parents.tolist()):
        children = np.flatnonzero(creature.parents == j)
        if len(children) and np.linalg.norm(creature.heads[children[0]] - creature.heads[j]) > 1e-9:
            out[j, :3, :3] = rest_orientation(creature.heads[children[0]] - creature.heads[j])
        elif parent >= 0:
            out[j, :3, :3] = out[parent, :3, :3]
    return out


def body_of(creature: Creature) -> Skeleton:
    """The bones that lead to the proposed effectors, as a Skeleton."""
    found = find_effectors(creature.names, creature.parents, creature.heads)
    effectors = [e for e in found.effectors if e != found.body]
    bones = controlled_bones(creature.parents, creature.heads, found.body, effectors)
    parents = [-1]
    for bone in bones[1:]:
        above = int(creature.parents[bone])
        while above not in bones:
            above = int(creature.parents[above])
        parents.append(bones.index(above))
    names = [creature.names[b] for b in bones]
    feet = [creature.names[f] for f in found.feet if f in effectors]
    return make(
        names,
        np.array(parents),
        rest(creature)[bones],
        [creature.names[e] for e in effectors],
        feet,
        t_pose=np.zeros((len(bones), 3)),
    )


def action(rig: Skeleton, name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """One action: rot_local (F, J, 3) [rad] and the root's head (F, 3) [m]; the lowest foot, if any, is on the floor.

    Mirrored bones swing in opposite phase, and bones along a chain follow one after the other, as in a gait.
    """
    rng = np.random.default_rng([seed, *name.encode()])
    time = np.arange(round(SECONDS * FPS)) / FPS
    pace, swing = {"walk": (1.2, 0.3), "run": (2.2, 0.45), "shake": (3.0, 0.12)}.get(name, (0.5, 0.35))
    depth = np.array([len(tree.chain(rig.parents, j)) for j in range(rig.count)])
    phase = rng.uniform(0, 2 * np.pi, rig.count)
    turn = np.zeros((len(time), rig.count, 3))
    for j in range(1, rig.count):
        twin = _twin(rig, j)
        start = phase[min(j, twin)] + (np.pi if twin < j else 0)
        wave = np.sin(2 * np.pi * pace * time - 0.7 * depth[j] + start)
        own = np.random.default_rng([seed, min(j, twin), *name.encode()])
        share = own.uniform(0.4, 1.0) * swing
        turn[:, j, 0] = share * wave + 0.3 * share * own.normal()
        turn[:, j, 2] = 0.25 * share * np.sin(2 * np.pi * 0.5 * pace * time + start) * (-1 if twin < j else 1)
    lean = np.stack([np.sin(2 * np.pi * f * pace * time + p) for f, p in ((1, 0), (0.5, 1), (0.5, 2))], axis=1)
    heading = (0.6 if name == "turn" else 0.1) * np.sin(2 * np.pi * time / SECONDS)
    world = matrix_from_axis_angle(heading[:, None] * [0, 0, 1.0]) @ matrix_from_axis_angle(0.25 * swing * lean)
    basis = rig.rest_arm[:, :3, :3]
    local = basis.transpose(0, 2, 1) @ matrix_from_axis_angle(turn) @ basis
    local[:, 0] = basis[0].T @ world @ basis[0]
    rot = axis_angle_from_matrix(local)
    root = np.tile(rig.rest_arm[0, :3, 3], (len(time), 1))
    speed = {"walk": 0.8, "run": 2.0}.get(name, 0.05) * rig.body_length
    root[:, 1] -= speed * time
    if rig.feet:
        places = fk.armature_matrices(rig, rot, root)[:, list(rig.feet), 2, 3]
        root[:, 2] -= places.min(axis=1) - rig.rest_arm[list(rig.feet), 2, 3].min()
    return rot, root


def _twin(rig: Skeleton, j: int) -> int:
    """The bone that mirrors ``j``, or ``j`` itself if there is none."""
    heads = rig.rest_arm[:, :3, 3]
    away = np.linalg.norm(heads - heads[j] * [-1, 1, 1], axis=1)
    best = int(np.argmin(away))
    return best if away[best] < 1e-6 and abs(heads[j, 0]) > 1e-6 else j


def poses_of(creature: Creature, seed: int = 1) -> PoseSet:
    """All actions of a creature."""
    rig = body_of(creature)
    made = [action(rig, name, seed) for name in CLIPS]
    clip = np.repeat(np.arange(len(CLIPS)), [len(rot) for rot, _ in made])
    return pose_set.make(
        rig, np.concatenate([r for r, _ in made]), np.concatenate([p for _, p in made]), clip, CLIPS, clip_fps=FPS
    )


def trained(poses: PoseSet, seconds: float, folder: Path) -> list[str]:
    """The lines that the trainer prints for these poses."""
    data = folder / "creature.npz"
    pose_set.save(data, poses)
    root = Path(__file__).resolve().parent.parent
    words = [sys.executable, str(root / "standalone_trainer.py"), "--data", str(data)]
    words += ["--weights", str(folder / "best.npy"), "--time-limit", f"{seconds:g}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr or done.stdout)
    return done.stdout.splitlines()


def shares(lines: Sequence[str]) -> dict[str, list[float]]:
    """Row of the card -> effector errors in per cent of the body: for held-out blocks, then for held-out clips."""
    out: dict[str, list[float]] = {}
    for line in lines:
        match = re.match(r"(\S.{33})((?:\s+\d+\.\d+){5})", line)
        if match:
            out.setdefault(match[1].strip(), []).append(float(match[2].split()[4]))
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; returns 0 if the error of every network on the held-out part is at most 2 % of the body."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=positive(float), default=30, help="CPU seconds of each training")
    parser.add_argument("--only", nargs="*", choices=list(CREATURES), default=list(CREATURES))
    options = parser.parse_args(argv)
    rows = ("network alone", "network + 3 exact steps", "nearest training frame", "ridge regression", "mean pose")
    print(
        f"effector error in % of the body, held-out blocks / held-out clips\n{'':10}"
        + "".join(f"{r:>26}" for r in rows)
    )
    missed = 0
    for name in options.only:
        poses = poses_of(CREATURES[name])
        with tempfile.TemporaryDirectory() as folder:
            found = shares(trained(poses, options.seconds, Path(folder)))
        missed += found["network alone"][0] > 2
        print(f"{name:10}" + "".join(f"{' / '.join(f'{v:.2f}' for v in found[r]):>26}" for r in rows), flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
