"""Tests of `coterie.testing` with real clients."""
