"""A pytest plugin for the compiled form: tests that patch what is compiled are skipped.

Compiled functions call each other directly, so a patched module or class would not be noticed.
Those tests run on the pure form.
"""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

# Tests that need the interpreted form for another reason.
_SKIPPED = {
    "test_a_traceback_shows_the_line_of_the_compiled_codec": "native codecs have no such lines",
    "test_transcripts_in_the_description_of_the_states_exist": "compiled modules have no text",
    "test_encoded_records_replay_to_the_same_state": "copies native objects",
    "test_only_the_newest_record_of_a_key_counts": "copies native objects",
}


def _module_of(target: Any) -> str:
    if isinstance(target, ModuleType):
        return target.__name__
    return str(getattr(target, "__module__", None) or type(target).__module__)


def _is_compiled(name: str) -> bool:
    while name:
        module = sys.modules.get(name)
        if module is not None:
            return name.startswith("coterie.") and not str(module.__file__).endswith(".py")
        name = name.rpartition(".")[0]
    return False


@pytest.fixture
def monkeypatch() -> Iterator[pytest.MonkeyPatch]:
    """Patch as pytest's fixture does, but skip the test if a compiled module has the attribute."""
    patch = pytest.MonkeyPatch()
    set_attribute = patch.setattr

    def checked(*arguments: Any, **options: Any) -> None:
        target = arguments[0]
        name = target if isinstance(target, str) else _module_of(target)
        if _is_compiled(name):
            pytest.skip(f"patches {name}, which is compiled")
        set_attribute(*arguments, **options)

    patch.setattr = checked  # type: ignore[method-assign]
    yield patch
    patch.undo()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests that need the interpreted form."""
    for item in items:
        reason = _SKIPPED.get(item.name.partition("[")[0])
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))
