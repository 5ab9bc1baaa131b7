"""`python -m lookalike` is the command line."""

from lookalike.cli.main import main

main()
