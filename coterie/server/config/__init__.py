"""Settings: their names and types, where they come from, how they are described and changed."""
