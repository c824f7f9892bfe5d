# SPDX-License-Identifier: GPL-3.0-or-later
"""Inverse kinematics: the learned network, the exact solver, its training task and its quality suite."""
