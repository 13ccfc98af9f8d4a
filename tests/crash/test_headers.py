"""A sample of the batches with wrong headers; `make crash` tries all of them."""

from tests.crash.headers import try_headers


def test_batches_that_are_stored_can_be_read() -> None:
    done = try_headers(sample=9)
    assert done.failures == []
    assert done.outcomes["refused"] > 100
    assert done.outcomes["stored"] > 100
