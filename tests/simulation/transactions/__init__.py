"""Transactions under crashes: producers, zombies and readers against a broker in virtual time."""
