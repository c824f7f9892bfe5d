# SPDX-License-Identifier: GPL-3.0-or-later
"""Contacts: when a foot counts as standing on the ground."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ground:
    """When a foot counts as standing; lengths for legs of 0.945 m, scaled with the leg."""

    reference_leg: float = 0.945  # [m] leg length of the reference rig, to which the lengths below belong
    percentile: float = 2.0  # of the lowest foot height of a clip: robust against single frames below the floor
    near: float = 0.03  # [m] the lower of ankle and toe under this counts as touching
    slow: float = 0.3  # [m/s] and the toe slower than this, where time is known
    ahead: float = 0.1  # [s] desired contact is the contact this much later
    older_below: float = 0.1  # [m] the older rule: foot head under this height


GROUND = Ground()
