"""Tests of `coterie check-client`: a consumer of our own passes, and each of its flaws is found."""
