"""The transaction coordinator: one more machine, with the log `__transaction_state`."""
