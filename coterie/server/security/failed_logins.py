"""The failed logins of a broker whose answers are held [security/login-delay]."""

# Each keeps a connection and a timer, some 5 KiB; a service that restarts with a wrong password
# makes a few hundred. Beyond that a failed login is closed at once.
MOST_HELD = 1_000


class FailedLogins:
    """The count of them.

    Attributes:
        held: how many there are.
    """

    def __init__(self) -> None:
        """Start without any."""
        self.held = 0
