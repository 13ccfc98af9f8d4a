"""Modules that the compiled form has in addition; the build copies them to coterie/protocol."""
