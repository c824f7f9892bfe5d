# SPDX-License-Identifier: GPL-3.0-or-later
"""Which parameters are sliders, and what they say."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...gait import parameters
from ...gait.parameters import INDEX, TABLE

SAME = 1e-3  # share by which two speeds may differ and count as one: properties hold 32 bits
SLIDERS = tuple(entry for entry in TABLE if entry.group != "proportions")


def values_of(own: Any) -> np.ndarray:
    """The parameters (P) that an armature object's sliders say.

    A key on the speed moves no other slider, so where step length and cadence say another one, they are those of the speed.
    """
    out = parameters.DEFAULT.copy()
    for entry in SLIDERS:
        out[INDEX[entry.name]] = getattr(own, entry.name)
    if abs(own.speed / float(parameters.speed(out)) - 1) > SAME:
        out = parameters.at_speeds(out, np.array([own.speed]))[0]
    return out
