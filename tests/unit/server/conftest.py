"""What the tests of the server share."""

import pytest


@pytest.fixture
def tiny_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a slice end after each step."""
    monkeypatch.setattr("coterie.server.slices.SLICE_S", 0)
    monkeypatch.setattr("coterie.server.network.sliced_response.SLICE_S", 0)
