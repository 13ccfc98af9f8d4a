"""Logins and rights of clients: what is stored of them, and what a connection does with it."""
