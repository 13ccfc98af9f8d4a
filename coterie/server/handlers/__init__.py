"""The handlers of all APIs: from a decoded request to its response."""
