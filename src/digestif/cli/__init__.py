"""The command line: one thin file per group of commands.

It starts quickly because nothing here imports the engine or rich until a command needs it.
"""

from digestif.cli.program import main

__all__ = ["main"]
