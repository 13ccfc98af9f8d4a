"""A share partition: which records of a topic partition a share group is processing."""
