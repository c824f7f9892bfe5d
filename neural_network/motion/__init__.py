# SPDX-License-Identifier: GPL-3.0-or-later
"""Motion data: clips, pose sets, splits, tasks and cleaning."""
