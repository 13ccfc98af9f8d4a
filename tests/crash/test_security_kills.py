"""A few real kills while users, rules and tokens change; `make crash` does forty."""

import time
from pathlib import Path

import pytest

from tests.crash.security_kills import RULES, Rules, Tokens, Users, kill_secured
from tests.live.secured.broker import SecuredBroker

MECHANISM = "SCRAM-SHA-256"


@pytest.mark.timeout(180)
def test_a_killed_server_keeps_users_rules_and_tokens() -> None:
    done = kill_secured(2, time.monotonic() + 120, seed=1)
    assert done.failures == []
    assert done.kills >= 2
    assert all(each.total for each in done.changers)
    assert done.producer.acknowledged


def test_what_is_lost_or_left_is_noticed(tmp_path: Path) -> None:
    broker = SecuredBroker(tmp_path)
    broker.start()
    try:
        broker.setup.prepare()
        users, rules, tokens = Users(broker, 1), Rules(broker, 1), Tokens(broker, 1)
        with tokens.cluster() as cluster:
            tokens.kept = dict(tokens.found(cluster))
            (token_id,) = tokens.kept
        users.compare()
        rules.compare()
        tokens.compare()
        assert users.failures + rules.failures + tokens.failures == []
        users.kept[("user-1", MECHANISM)] = 5000
        rules.kept[RULES[0]] = True
        tokens.kept[token_id] += 1
        for each in (users, rules, tokens):
            each.compare()
            assert len(each.failures) == 1
            assert "was acknowledged with" in each.failures[0]
        # A removed token that is good, and one that is none.
        secret = broker.setup.tokens[token_id][1]
        tokens.removed, tokens.kept = {token_id: 1}, {}
        tokens._log_in(token_id, 1, is_good=False)
        assert "logs in, and was removed" in tokens.failures[-1]
        broker.setup.tokens["none"] = "none", secret
        tokens._log_in("none", 1, is_good=True)
        assert "cannot log in" in tokens.failures[-1]
    finally:
        broker.kill()
