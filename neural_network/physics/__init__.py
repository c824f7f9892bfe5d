# SPDX-License-Identifier: GPL-3.0-or-later
"""Physics: a body with masses, what the ground has to give for it to move as it does, and motion that this can be given to."""
