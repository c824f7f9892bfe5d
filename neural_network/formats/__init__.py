# SPDX-License-Identifier: GPL-3.0-or-later
"""Readers of motion files: each turns a file into a :class:`~neural_network.motion.clip.Clip`."""
