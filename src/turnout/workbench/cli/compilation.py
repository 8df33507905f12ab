"""Compiled programs of commands. A command owns its process; the library must not assume that it does."""

from __future__ import annotations


def prepare_compilation() -> None:
    """Keep programs on disk for the next command, and few of them in memory, as `reproduce --all` makes hundreds."""
    from turnout.simulator.programs import keep_few_programs, use_compilation_cache

    use_compilation_cache()
    keep_few_programs()
