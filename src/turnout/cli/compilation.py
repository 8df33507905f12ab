"""What commands do with compiled programs. A command has its process to itself; the library must not presume that."""

from __future__ import annotations


def prepare_compilation() -> None:
    """Keep programs on disk for the next command, and few of them in memory, as `reproduce --all` makes hundreds."""
    from turnout.simulator.programs import keep_few_programs, use_compilation_cache

    use_compilation_cache()
    keep_few_programs()
