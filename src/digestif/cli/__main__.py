"""`python -m digestif.cli`: the command line."""

from digestif.cli import main

main()
