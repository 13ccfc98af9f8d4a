"""The blocks of code in README.md and docs: each is run, or checked as far as it can be.

A block is run by `test_tutorials.py` (docs/start), `test_examples.py` (tests in docs/testing.md and
docs/cluster.md) or tests/live/test_readme.py. Every other one is parsed by `test_blocks.py`, and is
reported as skipped there, with the reason why it does not run. A page can give the reason in a
comment before the block, which readers do not see: `<!-- not run: it installs packages -->`.
"""
