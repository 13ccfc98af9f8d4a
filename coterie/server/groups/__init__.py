"""The group coordinator on the event loop: appends, loading, timers, events."""
