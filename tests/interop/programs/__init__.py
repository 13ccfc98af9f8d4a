"""The programs; each module has `run(surroundings)`, and perhaps `CONFIG` for its broker."""
