"""Attacks on a server before and during logins: what they cost it, and what ends them."""
