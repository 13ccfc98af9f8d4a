"""Measurements that need the data or the tools of the tests."""
