"""Real clients of a broker with TLS, logins and access rules."""
