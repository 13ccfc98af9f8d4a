"""The invariants of the simulation, one subject a file; each breach is a `Violation`."""
