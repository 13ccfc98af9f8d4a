"""`python -m coterie`: the command line where the script is not on the path."""

from coterie.cli.main import main

main(prog_name="coterie")
