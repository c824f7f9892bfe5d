# SPDX-License-Identifier: GPL-3.0-or-later
"""A Clip of bones that were watched in some other program: from where they are at rest and in each frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..core.rotations import quaternion_from_matrix
from .clip import Clip

STILL = 1e-4  # share of the rig's size: a bone whose place in its parent moves less does not move


def posed_clip(
    name: str,
    names: Sequence[str],
    parents: np.ndarray,
    rest: np.ndarray,
    posed: np.ndarray,
    fps: float,
    tips: Mapping[int, np.ndarray] | None = None,
) -> Clip:
    """A Clip in metres, Z up.

    Args:
        name: of the clip.
        names: (J) of the bones, parents before children.
        parents: (J) int, -1 for roots.
        rest: (J, 4, 4) bones at rest, world axes [m], rotations without scale.
        posed: (F, J, 4, 4) bones in each frame, likewise.
        fps: frames a second.
        tips: bone index -> (3) its end at rest, world axes [m], for bones without children.

    Raises ValueError for numbers that are not finite.
    """
    if not (np.isfinite(rest).all() and np.isfinite(posed).all()):
        raise ValueError(f"{name}: some bone has a place or a rotation that is no number")
    parents = np.asarray(parents, int)
    inner = parents >= 0
    turned = posed[..., :3, :3] @ rest[:, :3, :3].transpose(0, 2, 1)
    above = np.where(inner[:, None, None], turned[:, np.maximum(parents, 0)], np.eye(3))
    local = np.swapaxes(above, -1, -2) @ turned
    heads, moved = rest[:, :3, 3], posed[..., :3, 3]
    offsets = np.where(inner[:, None], heads - heads[np.maximum(parents, 0)], heads)
    own = np.einsum("fjba,fjb->fja", above, np.where(inner[:, None], moved - moved[:, np.maximum(parents, 0)], moved))
    size = float(np.ptp(heads, axis=0).max()) or 1.0
    first = int(np.flatnonzero(~inner)[0])
    far = np.abs(own - offsets).max(axis=(0, 2), initial=0) if len(posed) else np.zeros(len(parents))
    translations = {j: own[:, j] for j in np.flatnonzero(far > STILL * size).tolist() if j != first}
    return Clip(
        name,
        tuple(names),
        parents,
        offsets,
        {j: np.asarray(tip) - heads[j] for j, tip in (tips or {}).items()},
        quaternion_from_matrix(local),
        moved[:, first],
        fps,
        "Z",
        1.0,
        translations,
    )
