# SPDX-License-Identifier: GPL-3.0-or-later
"""Task types: the fixed table, and a guess from a clip's name."""


def guess_task(name: str) -> str:
    """The task type that the name of an action or file suggests, or 'other'."""
    lower = name.lower()
    return next((task for task, words in _TASK_WORDS if any(word in lower for word in words)), "other")


_TASK_WORDS = (
    ("acrobatics", ("flip", "cartwheel", "roll", "handstand", "somersault", "acrobat", "vault", "tumble")),
    (
        "combat",
        (
            "punch",
            "kick",
            "fight",
            "attack",
            "sword",
            "box",
            "combat",
            "melee",
            "dodge",
            "block",
            "hit",
            "shoot",
            "martial",
        ),
    ),
    ("dance", ("dance", "ballet", "salsa", "spin", "twirl", "jete")),
    ("jump", ("jump", "hop", "leap")),
    ("crouch", ("crouch", "crawl", "sit", "kneel", "getup", "get_up", "stand_up", "standup", "lie", "squat", "sneak")),
    ("locomotion", ("walk", "run", "jog", "turn", "step", "stride", "march", "climb", "sprint")),
    (
        "reach",
        ("reach", "pick", "throw", "grab", "place", "lift", "push", "pull", "catch", "interact", "use_item", "wave"),
    ),
    ("idle", ("idle", "stand", "rest", "wait", "pose", "breath")),
)


TASKS = ("idle", "locomotion", "reach", "crouch", "jump", "combat", "acrobatics", "dance", "other")
"""The fixed table of task types. The task input is the position in it divided by the last index."""


def task_value(name: str) -> float:
    """The task input for a task's name. Raises ValueError, which lists the names, for any other."""
    if name not in TASKS:
        raise ValueError(f"task: expected one of {', '.join(TASKS)}, got {name!r}")
    return TASKS.index(name) / (len(TASKS) - 1)
