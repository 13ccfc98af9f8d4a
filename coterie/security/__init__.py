"""Who a client is, and what it may do: the rules of logins, names and access, without I/O.

The package is pure, as the coordinator: random bytes and times are arguments. The server writes
what is kept to the security log.
"""
