"""Errors that commands report to the user."""


class StoreError(Exception):
    """An output directory cannot be used; the message says why and what to do."""
