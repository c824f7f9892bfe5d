# SPDX-License-Identifier: GPL-3.0-or-later
"""Contacts in a file: when feet stand and hands hold, and where, as whoever watched the motion says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..core.files import read_archive

SIDES = 2
FARTHEST = 1e4  # [m]


@dataclass(frozen=True)
class Contacts:
    """What is held in a motion of F frames; left, right."""

    feet: np.ndarray | None = None
    """(F, 2) bool, feet that stand; None: nobody says."""
    hands: np.ndarray | None = None
    """(F, 2) bool, hands that hold; None: none does."""
    places: np.ndarray | None = None
    """(F, 2, 3) [m] where holding hands are wanted; None or NaN: where they are on average then."""

    def rows(self, rows: slice) -> Contacts:
        """Those of some frames."""
        return Contacts(*(None if part is None else part[rows] for part in (self.feet, self.hands, self.places)))


NOTHING = Contacts()


def read(path: Path, frames: int, feet: bool = True) -> Contacts:
    """The contacts of ``frames`` frames: `contact` (F, 2), `hands` (F, 2) bool, `places` (F, 2, 3) [m] of an npz.

    ``feet``: whether `contact` has to be there. Raises ValueError, in words, for what does not fit.
    """
    found = read_archive(path, "contacts", ("contact", "hands", "places"))
    if feet and "contact" not in found:
        raise ValueError(
            f"{path.name}: expected `contact` ({frames}, {SIDES}) bool, got none; repair contacts writes one"
        )
    if not found:
        raise ValueError(f"{path.name}: expected `contact` or `hands` ({frames}, {SIDES}) bool, got neither")
    for key in ("contact", "hands"):
        value = found.get(key)
        if value is not None and (value.shape != (frames, SIDES) or value.dtype != bool):
            raise ValueError(f"{path.name}: expected `{key}` ({frames}, {SIDES}) bool, got {value.shape} {value.dtype}")
    places, hands = found.get("places"), found.get("hands")
    if places is not None:
        if places.shape != (frames, SIDES, 3) or places.dtype.kind != "f":
            raise ValueError(
                f"{path.name}: expected `places` ({frames}, {SIDES}, 3) [m], got {places.shape} {places.dtype}"
            )
        most = float(np.nanmax(np.abs(places), initial=0))
        if hands is None or most > FARTHEST:
            got = "no `hands`" if hands is None else f"{most:g}"
            raise ValueError(
                f"{path.name}: expected `hands`, and `places` up to {FARTHEST:g} m from the origin or NaN, got {got}"
            )
    return Contacts(found.get("contact"), hands, places)
