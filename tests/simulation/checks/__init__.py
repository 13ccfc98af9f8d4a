"""The invariants of the simulation, one subject per file; a breach is a `Violation`."""
