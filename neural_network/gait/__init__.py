# SPDX-License-Identifier: GPL-3.0-or-later
"""Walks and runs from sliders: a teacher made of captured cycles and exact feet, and the small network distilled from it."""
