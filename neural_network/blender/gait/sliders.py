# SPDX-License-Identifier: GPL-3.0-or-later
"""Which parameters are sliders, and what they say."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...gait import parameters
from ...gait.parameters import INDEX, TABLE

SLIDERS = tuple(entry for entry in TABLE if entry.group != "proportions")


def values_of(own: Any) -> np.ndarray:
    """The parameters (P) that an armature object's sliders say."""
    out = parameters.DEFAULT.copy()
    for entry in SLIDERS:
        out[INDEX[entry.name]] = getattr(own, entry.name)
    return out
