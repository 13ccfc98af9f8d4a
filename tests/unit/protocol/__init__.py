"""Tests of protocol/: frames, codecs, records of the offsets topic."""
