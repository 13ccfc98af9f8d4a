"""An example; see examples/README.md."""
