"""One file per API: from a decoded request to its answer."""
