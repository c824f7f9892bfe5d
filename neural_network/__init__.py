# SPDX-License-Identifier: GPL-3.0-or-later
"""The learned full-body IK core of Neural IK: NumPy only, no bpy, no print.

Start with :mod:`solver` (solve one pose), :mod:`training` (learn a network) or :mod:`dataset` (the poses both live on).
"""
