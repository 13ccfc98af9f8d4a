"""`python -m coterie`: the command line, for where the script `coterie` is not on the path."""

from coterie.cli.main import main

main(prog_name="coterie")
