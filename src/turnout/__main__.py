"""`python -m turnout`, and the command `turnout`."""

import os

INTERRUPTED = 130  # the shell's code for a program that was stopped by Ctrl-C


def main() -> None:
    """Run the command; Ctrl-C ends it also while it is still being imported."""
    try:
        from turnout.workbench.cli import main as command
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    command()


if __name__ == "__main__":
    main()
