"""Bytes to messages and back. Pure: no I/O, no clock, nothing but the standard library."""
