"""Between sockets and handlers: connections, quotas, routes and delayed responses."""
