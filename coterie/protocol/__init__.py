"""Messages, frames and record batches to bytes and back: pure code without I/O and clock."""
