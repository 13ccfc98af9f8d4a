"""Tests of `coterie check`: our own broker passes it, and a broker with a bug does not."""
