# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages: how rooms report, and helpers for messages of one line."""

from __future__ import annotations

from typing import Protocol


class Say(Protocol):
    """A function that shows one line to the user. A program passes it to the rooms, which never print."""

    def __call__(self, line: str, *, error: bool = False) -> None:
        """Show ``line``, on standard error if ``error``."""


def short(name: str, most: int = 60) -> str:
    """A name cut to at most ``most`` letters, for messages."""
    return name if len(name) <= most else name[:most] + "..."
