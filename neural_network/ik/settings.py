# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of training, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Losses:
    """Weights of the loss terms; lengths in leg lengths, angles in radians."""

    fk: float = 1.0  # mean Euclidean distance of the effectors
    orientation: float = 0.1  # geodesic angle of the effectors, inside the FK term
    contact: float = 0.5  # grounded feet: squared height error and squared slip
    pose: float = 1.0  # 1 - cos of the rotation error of every bone; with 0.3, elbows and knees are not determined well
    joints: float = 1.0  # mean Euclidean distance of the heads of all bones but the Hips
    limits: float = 0.1  # squared excess beyond swing and twist limits


@dataclass(frozen=True)
class Training:
    """How a network is trained; the defaults are those of ``standalone_trainer.py``."""

    layout: str = "hips"  # inputs and outputs, see context.LAYOUTS; "reference" has 1.5 times the error on new motion
    hidden: tuple[int, ...] = (128, 96)  # 25,605 weights with 50 inputs and 69 outputs, which take microseconds
    epochs: int = 300  # at most; early stopping usually ends training before
    batch_size: int = 128  # NumPy is fastest per pose at 128 to 256
    lr: float = 0.005  # step size of Adam at the start of the cosine schedule; 0.001 takes five times as long
    lr_end: float = 0.02  # share of lr left at the last epoch of the cosine schedule; helps together with pose-mix
    beta1: float = 0.9  # Adam
    beta2: float = 0.999  # Adam
    epsilon: float = 1e-8  # Adam
    average: float = 0.995  # decay of the running average of the weights; the average is what is validated and kept
    patience: int = 40  # epochs without a better validation error before stopping
    seed: int = 0  # of initial weights, order and augmentation; the trainer splits the data with it too
    augment: int = 0  # presentations of each pose per epoch; 0: two, or as many as make an epoch of epoch_least poses
    epoch_least: int = 7500  # minimum poses of an epoch, so that a small set is presented often enough to be learned
    mix: float = 0.5  # probability that a limb is taken from another training pose (pose-mix)
    without_rotations: float = (
        0.35  # share of batches that are given no rotations of the targets, for layouts that have them
    )
    mix_without: float = 0.15  # mix in these batches: a limb of another pose says nothing about where it bends
    noise_without: float = 0.15  # [rad] joint_noise in them
    joint_noise: float = 0.5  # [rad] most joint noise of pose-mix; with 0.1, errors on new poses are twice as large
    max_frames: int = 0  # most frames to train on, evenly spaced; 0: all
    time_limit: float = 0.0  # [CPU s] for one training, which the cosine schedule then follows; 0: none
    fk_every: int = 1  # FK gradient in every n-th batch (16 in the older schedule)
    contact_every: int = 1  # contact gradient in every n-th batch (8 in the older schedule)
    fk_off_below: float = 0.0  # [m^2] older schedule: no FK gradient once the squared mean distance is lower; 0: never
    drop_effectors: float = 0.0  # probability that a target is dropped, for layouts with a mask
    proportions: float = 0.0  # spread of random body proportions in training, such as 0.3; 0: the rig's own
    losses: Losses = Losses()
