"""The console over brokers with real clients."""
