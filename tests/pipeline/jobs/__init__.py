"""Tests of jobs: runs from data directories and clusters to tables, and the checks on both."""
