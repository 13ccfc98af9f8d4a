"""One file per API: its request, its response, what each version added. None imports another."""
