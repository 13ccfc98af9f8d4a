"""Tests of the report page and of the story on the terminal."""
