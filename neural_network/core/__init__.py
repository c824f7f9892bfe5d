# SPDX-License-Identifier: GPL-3.0-or-later
"""The ground floor: rotations, skeletons, forward kinematics, contacts, files. NumPy only."""
