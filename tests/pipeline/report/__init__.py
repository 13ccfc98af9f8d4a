"""Tests of what is told of the tables: the page and the terminal."""
