"""Tests of the log and its files."""
