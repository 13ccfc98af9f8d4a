"""The exception of all checks.

An invariant is named by the rule of docs/spec that states it, in brackets, or by one of these:

    one-owner      a partition has at most one owner in a generation, judged by SyncGroup responses
    one-response   a request gets one response, in time; a superseded one gets none
    convergence    without faults, the running clients are soon in one Stable generation
    no-leaks       no timer and no delayed request remains without its reason
    fencing        a removed or replaced member and an old generation never succeed
    error-codes    responses have the error that the tables of `oracle` require
    counters, states, timers   the fields of a group agree with each other
"""


class Violation(AssertionError):  # noqa: N818 - named after what a check reports
    """An invariant does not hold.

    Attributes:
        invariant: its name.
    """

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant


def require(holds: object, invariant: str, text: str) -> None:
    """Raise a Violation unless the condition holds.

    The text is formatted on every call, so an expensive one belongs behind an `if`.
    """
    if not holds:
        raise Violation(invariant, text)
