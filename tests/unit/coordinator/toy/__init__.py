"""A type of groups that exists only here: what one more type takes."""
