"""Histories of operations at the same time, and whether one order explains them."""
