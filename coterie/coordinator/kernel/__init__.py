"""What every coordinator is made of: its interface to the runtime, operations, effects, timers."""
