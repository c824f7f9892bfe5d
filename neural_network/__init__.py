# SPDX-License-Identifier: GPL-3.0-or-later
"""Neural IK: full-body inverse kinematics that moves like the character it was learned from. NumPy only, no bpy, no print.

What games and scripts need stands here: ``from neural_network import Solver, Goals``. The names are loaded on first use, so
that importing one room of the package does not import the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core.skeleton import Skeleton
    from .ik.goals import Goals
    from .ik.solver import Session, Solution, Solver
    from .motion.pose_set import PoseSet

__all__ = ["Goals", "PoseSet", "Session", "Skeleton", "Solution", "Solver"]

_ROOMS = {
    "Goals": "ik.goals",
    "PoseSet": "motion.pose_set",
    "Session": "ik.solver",
    "Skeleton": "core.skeleton",
    "Solution": "ik.solver",
    "Solver": "ik.solver",
}


def __getattr__(name: str) -> Any:
    """A name of the public face, imported from the room that has it; AttributeError for any other."""
    from importlib import import_module

    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it offers {', '.join(__all__)}")
    return getattr(import_module(f".{_ROOMS[name]}", __name__), name)


def __dir__() -> list[str]:
    """The names of the public face beside the module's own."""
    return sorted({*globals(), *__all__})
