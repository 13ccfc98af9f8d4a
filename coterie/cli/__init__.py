"""The commands of `coterie`, one file a command (or a subcommand that fills one)."""
