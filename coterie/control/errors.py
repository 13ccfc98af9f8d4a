"""The errors that `coterie.testing` raises, as the control port answers them.

Their kinds have the names of the exceptions, which `ProcessBroker` raises again.
"""

from coterie.server.network.http_errors import Kind
from coterie.testing.errors import (
    BrokerLeak,
    BrokerNotStarted,
    FaultNotHit,
    RequestNotSeen,
    WaitTimedOut,
    WrongUse,
)

# A failed wait is a timeout of the request.
RAISED: dict[type[Exception], Kind] = {
    BrokerLeak: Kind(500, "stop the clients of this broker before it is closed"),
    BrokerNotStarted: Kind(503, "wait until GET /ready answers 200, or start a new broker"),
    FaultNotHit: Kind(409, "GET /requests shows what clients have sent; widen the fault's scope"),
    RequestNotSeen: Kind(404, "wait for the client, or GET /requests to see what it has sent"),
    WaitTimedOut: Kind(408, "read the picture of the group, or wait longer with timeout_s"),
    WrongUse: Kind(400, "correct the request; /docs describes each operation"),
}
EXCEPTIONS = {cls.__name__: cls for cls in RAISED}
