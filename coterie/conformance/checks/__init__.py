"""The checks of `coterie check`: what they are, how they run, how their results are shown."""
