# SPDX-License-Identifier: GPL-3.0-or-later
"""Learning, without any skeleton: layers, optimiser, loop, model file, card, report page."""
