"""Transcripts against a running broker over TCP, in real or in virtual time."""
