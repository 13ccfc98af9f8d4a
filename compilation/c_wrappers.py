"""The wrappers of a C file: functions by which Python calls what mypyc compiled.

mypyc writes a wrapper, which parses arguments, for each function. Those that nothing calls are left
out: of private functions whose name their module does not use, of the defaults of attributes, and
of functions that only stand in tables of methods. They were a fourth of the wrappers.
"""

import re
from collections import Counter
from collections.abc import Collection

_NAME = re.compile(r"CPyPy_\w+")
# How the text of a wrapper begins and ends. Regular expressions take ten times as long.
_BEGIN = "\n        PyObject *CPyPy_"
_END = "\n        }\n        \n"
# In the table of a module, and in that of a class.
_PRIVATE = re.compile(r'\n    \{"(_[^_]\w*)", \(PyCFunction\)CPyPy_\w+, [^\n]*\},(?=\n)')
_DEFAULTS = re.compile(
    r'\n    \{"__mypyc_defaults_setup",\n {5}\(PyCFunction\)CPyPy_\w+,\n {5}METH_[^\n]*\},(?=\n)'
)


def without_unused_wrappers(source: str, constants: Collection[object]) -> str:
    """Return the C file of a module without wrappers that nothing calls.

    Args:
        source: the file, before declarations.
        constants: of the module, which looks its functions up by their names.
    """
    source = _DEFAULTS.sub("", source)
    source = _PRIVATE.sub(lambda found: found[0] if found[1] in constants else "", source)
    named = Counter(_NAME.findall(source))
    first, *rest = source.split(_BEGIN)
    kept = [first]
    for text in rest:
        name = "CPyPy_" + text.partition("(")[0]
        wrapper, end, after = text.partition(_END)
        assert end, f"the end of {name} was not found"
        # A derived class of another module may call the one of a base.
        is_called = named[name] > 1 or name.endswith("_____init__")
        kept.append(_BEGIN + wrapper + end + after if is_called else "\n" + after)
    return "".join(kept)
