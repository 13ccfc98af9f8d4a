"""Tests of the control port."""
