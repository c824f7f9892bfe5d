# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages: what helps to say what went wrong in one line."""


def short(name: str, most: int = 60) -> str:
    """A name as messages show it."""
    return name if len(name) <= most else name[:most] + "..."
