"""The server: sockets, threads, clocks and logs, and nothing that decides about groups."""
