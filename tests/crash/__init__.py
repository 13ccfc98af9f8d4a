"""Crashes, damage and failing calls, in every place of a corpus of small scenarios.

`disk.py` records what a scenario asks of its file system, `losses.py` makes of that the disks that
a crash may leave, `restart.py` starts from one and compares with `history.py`, which knows what was
acknowledged. `python -m tests.crash` (or `make crash`) runs all of it for as long as it is told;
the tests beside it run a slice.
"""
