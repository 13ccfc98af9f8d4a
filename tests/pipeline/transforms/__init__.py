"""Tests of transforms on small tables."""
