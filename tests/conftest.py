"""What every test shares: the option to rewrite recorded expectations."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what was seen into golden files and transcripts; then read the diff",
    )


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether expectations are to be written instead of compared."""
    return bool(request.config.getoption("--rewrite"))
