"""What the pipeline does from one end to the other: reading in, working out, following."""
