"""Tests of coterie/server."""
