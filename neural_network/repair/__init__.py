# SPDX-License-Identifier: GPL-3.0-or-later
"""Repair: feet that stand, and motion without tremble, drops and drift."""
