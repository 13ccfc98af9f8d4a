"""The settings of a live run: those of the model that mean something to real processes."""

from typing import Any

from coterie.lab.errors import WrongInput
from coterie.lab.parameters import Parameters, with_settings

# The others describe the model's network, servers and clients, which are real here.
LIVE_SETTINGS = (
    "rate", "poll_gap_ms", "commit_ms", "heartbeat_ms", "session_ms", "rebalance_ms",
    "metadata_age_ms", "initial_delay_ms", "connect_delay_ms", "zk_session_ms", "zk_backoff_ms",
    "zk_retries", "rocketmq_interval_ms", "invisible_ms",
)  # fmt: skip
# What a real application is by default: it takes a poll's records in no time.
_DEFAULTS: dict[str, Any] = {"poll_gap_ms": 0.0}


def live_parameters(settings: dict[str, Any]) -> Parameters:
    """Return the parameters of a live run.

    Raises:
        WrongInput: a setting or a value is wrong, or it is one of the model only.
    """
    parameters = with_settings(Parameters(), {**_DEFAULTS, **settings})
    for name in settings:
        if name not in LIVE_SETTINGS:
            raise WrongInput(
                f"'{name}' is a setting of the model and can't be set for real processes."
                f" Settings of live runs: {', '.join(LIVE_SETTINGS)}."
            )
    return parameters
