"""Behaviours as transcripts, and what runs them: see README.md beside this file."""
