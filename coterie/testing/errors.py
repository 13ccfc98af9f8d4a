"""The errors of `coterie.testing`. Each text names the cause and what to do."""


class WrongUse(Exception):  # noqa: N818 - the name says what is wrong
    """A call that cannot work as it was made."""


class BrokerNotStarted(Exception):  # noqa: N818 - the name says what is wrong
    """The broker could not be started, or is closed."""


class WaitTimedOut(AssertionError):  # noqa: N818 - the name says what is wrong
    """A condition did not hold in time; the text shows what was there instead."""


class RequestNotSeen(AssertionError):  # noqa: N818 - the name says what is wrong
    """No client has sent a request that the test expects."""


class FaultNotHit(AssertionError):  # noqa: N818 - the name says what is wrong
    """No request has met a fault."""


class BrokerLeak(AssertionError):  # noqa: N818 - the name says what is wrong
    """Something of a broker was still there after it was closed."""
