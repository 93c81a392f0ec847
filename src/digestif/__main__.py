"""`python -m digestif`: the command line."""

from digestif.cli import main

main()
