# SPDX-License-Identifier: GPL-3.0-or-later
"""Rigs: roles, limbs, creatures, retargeting."""
