"""Topics and partitions on the event loop: creation, syncing, cleaning, retention, fetches."""
