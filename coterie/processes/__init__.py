"""Programs that run beside this one: a broker, and any other child process."""

from coterie.processes.broker import FAST_GROUPS, BrokerProcess, free_port, serve_command
from coterie.processes.child import API_VERSIONS, Child, Children, ProcessFailed, first_answer

__all__ = [
    "API_VERSIONS",
    "FAST_GROUPS",
    "BrokerProcess",
    "Child",
    "Children",
    "ProcessFailed",
    "first_answer",
    "free_port",
    "serve_command",
]
