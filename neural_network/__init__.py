# SPDX-License-Identifier: GPL-3.0-or-later
"""Neural IK: full-body inverse kinematics that moves like the character it was learned from. NumPy only, no bpy, no print.

The public names, for games and scripts: ``from neural_network import Goals, Solver``.

- :class:`Solver`: trained weights, ready to solve; :class:`Session`: the same for one character under continuous control.
- :class:`Drag`: one drag of a character from the pose it is in, hips free, so that a person could take the pose.
- :class:`Goals`: where the effectors should be; :class:`Solution`: the pose found.
- :class:`Skeleton`: a rig; :class:`PoseSet`: poses of a rig, as training data.

Each is imported on first use, so that importing one room of the package does not import the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core.skeleton import Skeleton
    from .ik.drag import Drag
    from .ik.goals import Goals
    from .ik.solver import Session, Solution, Solver
    from .motion.pose_set import PoseSet

__all__ = ["Drag", "Goals", "PoseSet", "Session", "Skeleton", "Solution", "Solver"]

_MODULES = {
    "Drag": "ik.drag",
    "Goals": "ik.goals",
    "PoseSet": "motion.pose_set",
    "Session": "ik.solver",
    "Skeleton": "core.skeleton",
    "Solution": "ik.solver",
    "Solver": "ik.solver",
}


def __getattr__(name: str) -> Any:
    """Import a public name from its module; AttributeError for any other name."""
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}; the public names are {', '.join(__all__)}"
        )
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    """The public names and the module's own."""
    return sorted({*globals(), *__all__})
