"""The report: one HTML page over the gold tables, read without a network, drawn as SVG."""
