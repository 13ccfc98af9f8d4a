"""Quotas of users, client ids and addresses: their checks, rates, and the throttling of clients."""
