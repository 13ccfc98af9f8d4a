"""Crashes, damage and failing calls, everywhere in a corpus of small scenarios.

`disk.py` records every operation of a scenario on its file system. `losses.py` makes from a
recording the disks that a crash may leave. `restart.py` starts on such a disk and compares what it
finds with `history.py`, which keeps what was acknowledged [log/power-loss].
`python -m tests.crash` (or `make crash`) runs all of it for a given time; the tests in this
directory run a part.
"""
