# SPDX-License-Identifier: GPL-3.0-or-later
"""Live learning: a small network that learns a rig while it moves, and the server through which engines use it."""
