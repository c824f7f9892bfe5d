# SPDX-License-Identifier: GPL-3.0-or-later
"""Fuzzers: hostile files and messages, programs killed and work interrupted at any moment (``python -m tests.fuzz``).

Each module has ``COUNT``, how many it tries by default, and ``run(count, seed, say)``, which reports its progress and its
figures through ``say`` and returns every failure in words, with what is needed to repeat it.
"""
