"""The scenarios that only the consumer protocol has (KIP-848), by subject."""
