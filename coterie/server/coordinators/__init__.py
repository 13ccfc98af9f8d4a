"""The runtime of coordinators: appends, loading and timers, whatever a coordinator is about."""
