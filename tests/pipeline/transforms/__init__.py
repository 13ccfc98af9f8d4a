"""Transforms over tiny hand-made tables."""
