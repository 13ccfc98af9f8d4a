"""Transcripts of the coordinator's behaviour and their runners: see README.md beside this file."""
