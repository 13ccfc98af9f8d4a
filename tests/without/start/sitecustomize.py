"""What Python runs first in each process of `python -m tests.without`."""

import os

from tests.without.facilities import take_away

take_away(os.environ["TESTS_WITHOUT"].split())
