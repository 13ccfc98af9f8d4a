"""Tests of coterie/server, each file for the module of its name."""
