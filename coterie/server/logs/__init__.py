"""Topics and their logs on the event loop: creation, reading, syncing, cleaning and retention."""
