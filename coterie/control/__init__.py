"""The control port: `coterie.testing` over HTTP, and a broker in a process of its own."""
