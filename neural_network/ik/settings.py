# SPDX-License-Identifier: GPL-3.0-or-later
"""Every number one may change, one a line, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Losses:
    """Weights of the loss terms; lengths in leg lengths, angles in radians."""

    fk: float = 1.0  # mean Euclidean distance of the effectors
    orientation: float = 0.1  # geodesic angle of the effectors, inside the FK term
    contact: float = 0.5  # grounded feet: squared height error and squared slip
    pose: float = 1.0  # 1 - cos of the rotation error of every bone; 0.3 left elbows and knees to chance
    joints: float = 1.0  # mean Euclidean distance of all heads but the Hips'; the contract has none
    limits: float = 0.1  # squared excess beyond swing and twist limits


@dataclass(frozen=True)
class Training:
    """How a network is trained; the defaults are those of the trainer's command line."""

    layout: str = (
        "hips"  # which inputs and outputs, see context.LAYOUTS; "reference" errs half as much again on new motion
    )
    hidden: tuple[int, ...] = (128, 96)  # 25,605 weights with 50 inputs and 69 outputs: answers in microseconds
    epochs: int = 300  # upper bound; early stopping usually ends before
    batch_size: int = 128  # NumPy is fastest per pose at 128 to 256
    lr: float = 0.005  # Adam's step at the start of the cosine schedule; 0.001 needs five times the time
    lr_end: float = 0.02  # share of lr left at the last epoch (cosine); pays together with pose-mix
    beta1: float = 0.9  # Adam
    beta2: float = 0.999  # Adam
    epsilon: float = 1e-8  # Adam
    average: float = 0.995  # decay of the running average of the weights, which is what is validated and kept
    patience: int = 40  # epochs without a better validation figure before stopping
    seed: int = 0  # of weights, order and augmentation; the split has its own use of it
    augment: int = 0  # presentations of each pose an epoch; 0: 2, or more until an epoch has the next number of poses
    epoch_least: int = 7500  # poses in an epoch at least, so that a small set is not over before anything is learned
    mix: float = 0.5  # probability with which each limb is taken from another training pose (pose-mix)
    joint_noise: float = (
        0.5  # [rad] upper bound of pose-mix's joint noise: reaches poses nobody recorded; 0.1 errs twice as much
    )
    max_frames: int = 0  # train on at most this many evenly spaced frames; 0: all
    time_limit: float = 0.0  # [CPU s] for one training; 0: none. The cosine schedule then follows the time
    fk_every: int = 1  # FK gradient on every n-th batch (16 in the older schedule)
    contact_every: int = 1  # contact gradient on every n-th batch (8 in the older schedule)
    fk_off_below: float = 0.0  # [m^2] older schedule: no FK gradient once the mean squared distance is under this
    drop_effectors: float = 0.0  # probability of a dropped target, in layouts that have a mask
    proportions: float = 0.0  # spread of random body proportions in training, e.g. 0.3; 0: the rig's own
    losses: Losses = Losses()
