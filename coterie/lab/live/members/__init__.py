"""The members of live runs: one small program for each library.

A program gets its options as one JSON argument, writes lines (lines.py), ends in an orderly way at
SIGTERM, and at once when standard input ends.
"""
