"""What stands between a socket and a handler: connections, quotas, routes and delayed responses."""
