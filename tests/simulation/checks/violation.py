"""What a check raises: which promise was broken, and how."""


class Violation(AssertionError):  # noqa: N818 - what was violated counts
    """A promise of the coordinator does not hold.

    Attributes:
        invariant: its name, for tables: "I1" to "I12", or the section of the specification.
    """

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant


def require(holds: object, invariant: str, text: str) -> None:
    """Raise unless something holds; the text is for cheap messages only."""
    if not holds:
        raise Violation(invariant, text)
