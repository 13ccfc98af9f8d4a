"""Tests of what the conformance commands share."""
