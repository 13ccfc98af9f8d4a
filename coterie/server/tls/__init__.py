"""TLS: settings and files of keys, certificates of clients, and the layer of each connection."""
