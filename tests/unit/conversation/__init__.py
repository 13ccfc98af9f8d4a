"""The notation of messages, and the names in it."""
