# SPDX-License-Identifier: GPL-3.0-or-later
"""Motion as data: clips, pose sets, splits, tasks, cleaning."""
