"""A broker without real time: the environment of a seed, and a selector that jumps to timers."""
