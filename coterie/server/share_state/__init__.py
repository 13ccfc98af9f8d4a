"""The share coordinator of a broker, and what leaders of partitions ask of it."""
