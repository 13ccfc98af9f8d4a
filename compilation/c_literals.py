"""The constants of a C file: texts, numbers and tuples that are made when its module is imported.

mypyc has one table of constants for all modules, so a new text in one module would change the
places in the table, and with them the C source of every module; and the constants of all modules
would be made at the start. Here each module has a table of its own.
"""

import re
from collections.abc import Iterable

from mypyc.codegen.emit import c_array_initializer
from mypyc.codegen.emitmodule import c_string_array_initializer, collect_literals
from mypyc.codegen.literals import Literals, LiteralValue
from mypyc.ir.module_ir import ModuleIR

# Patterns that begin with plain text are found ten times as fast as those that begin with a place.
_PLACE = re.compile(r"CPyStatics\[(\d+)\]")
_IMPORT = re.compile(r"\nint CPyExec_\w+\(PyObject \*module\)\n\{\n")
_SHARED_TABLE = re.compile(
    r"^PyObject \*CPyStatics\[\d+\];\n"
    r"|^const (?:char \* const|double|int) CPyLit_\w+\[\] = .*?\};\n",
    re.MULTILINE | re.DOTALL,
)
_SHARED_START = re.compile(
    r"^ *if \(CPyStatics_Initialize\(.*?\) < 0\) \{\n *return -1;\n *\}\n", re.MULTILINE
)


def literals_of(modules: Iterable[ModuleIR]) -> dict[int, LiteralValue]:
    """Return the constants of all modules by their places in mypyc's one table.

    Args:
        modules: in the order in which mypyc generates them.
    """
    literals = Literals()
    for module in modules:
        for function in module.functions:
            collect_literals(function, literals)
    values: list[LiteralValue] = [None, False, True]
    values += literals.str_literals
    values += literals.bytes_literals
    values += literals.int_literals
    values += literals.float_literals
    values += literals.complex_literals
    values += literals.tuple_literals
    values += literals.frozenset_literals
    assert all(literals.literal_index(value) == place for place, value in enumerate(values))
    return dict(enumerate(values))


def with_own_literals(source: str, shared: dict[int, LiteralValue]) -> str:
    """Return the C file of a module with a table of its own for the constants that it uses.

    Args:
        source: the file, after `#include`.
        shared: the constants of all modules by the places that the file has.
    """
    own = Literals()
    places = sorted({int(place) for place in _PLACE.findall(source)})
    for place in places:
        own.record_literal(shared[place])
    moved = {str(place): own.literal_index(shared[place]) for place in places}
    source = _PLACE.sub(lambda found: f"CPyStatics[{moved[found[1]]}]", source)
    source, count = _IMPORT.subn(
        lambda found: f"{found[0]}    if (CPyLiterals_make() < 0) return -1;\n", source
    )
    assert count == 1, f"{count} functions import the module"
    return _table(own) + source


def without_shared_literals(source: str) -> str:
    """Return the C file of the library without mypyc's one table of constants."""
    source, count = _SHARED_START.subn("", source)
    assert count == 1, "the start of the table was not found"
    source, count = _SHARED_TABLE.subn("", source)
    assert count == 8, f"{count} tables were found, not 8"
    return source


def _table(literals: Literals) -> str:
    """Return the C source of a table of constants and of the function that makes them."""
    texts = {
        "Str": literals.encoded_str_values(),
        "Bytes": literals.encoded_bytes_values(),
        "Int": literals.encoded_int_values(),
    }
    numbers = {
        "Float": ("double", literals.encoded_float_values()),
        "Complex": ("double", literals.encoded_complex_values()),
        "Tuple": ("int", literals.encoded_tuple_values()),
        "FrozenSet": ("int", literals.encoded_frozenset_values()),
    }
    declared = [f"static PyObject *CPyStatics[{literals.num_literals()}];\n"]
    for name, encoded in texts.items():
        array = c_string_array_initializer(encoded)
        declared.append(f"static const char * const CPyLit_{name}[] = {array};\n")
    for name, (kind, values) in numbers.items():
        array = c_array_initializer(values)
        declared.append(f"static const {kind} CPyLit_{name}[] = {array};\n")
    names = ", ".join(f"CPyLit_{name}" for name in (*texts, *numbers))
    return (
        "".join(declared)
        + "RUNS_ONCE static int CPyLiterals_make(void)\n{\n"
        + "    static int is_made = 0;\n    if (is_made) return 0;\n    is_made = 1;\n"
        + f"    return CPyStatics_Initialize(CPyStatics, {names});\n}}\n"
    )
