# SPDX-License-Identifier: GPL-3.0-or-later
"""What everything else builds on: rotations, trees, skeletons, forward kinematics, contacts, metrics, files. NumPy only."""
