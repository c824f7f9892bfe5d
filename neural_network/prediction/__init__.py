# SPDX-License-Identifier: GPL-3.0-or-later
"""Prediction: continue a motion, fill between poses, check how far either can be trusted."""
