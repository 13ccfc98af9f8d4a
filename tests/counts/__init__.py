"""Counts the size of this code base: `python -m tests.counts [--tree DIR] [--json]`.

The figures of an earlier state are in docs/size.md. What a request passes through is counted by a
process of its own, so that a tree other than this one is imported there.
"""
