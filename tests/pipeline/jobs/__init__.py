"""Runs from data directories to tables, and the rules over both."""
