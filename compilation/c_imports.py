"""The imports of a C file: each import of a compiled module is one call.

For an import of a module of the same library mypyc writes fifty lines with eight blocks, at the
beginning of a module and in functions: a fifteenth of the C source. Here a function of the library
does the same, with a description of the module.
"""

import re
from collections.abc import Iterable
from importlib.machinery import EXTENSION_SUFFIXES

# What each file has in front of its headers.
TYPE = "typedef struct CPyNativeModule CPyNativeModule;\n"
_IMPORTS = """\
PyObject *CPyNative_import(const CPyNativeModule *module, PyObject *name)"""
_IMPORTS_NAMES = """\
int CPyNative_import_names(const CPyNativeModule *module, PyObject *name, PyObject *names, \
PyObject *targets, PyObject *globals)"""
_DESCRIPTION = "const CPyNativeModule CPyNative_{}"

_R = r"cpy_r_r\d+"
_FAILED = r"""was_at\("[^"]*", -?\d+\);
        goto CPyL\d+;"""
_LINES = r"(?:(?!CPyL)[^\n]*\n)*?"
# From the look at the state of a module to the reference to it.
_IMPORT = rf"""
    {_R} = \(void \*\)&CPyModule_(?P<module>coterie___\w+);
    (?P<state>{_R}) = \(void \*\)&CPyImportState_(?P=module);
    {_R} = CPyModuleLockAPI_coterie;
    (?P<known>{_R}) = CPyImport_IsInitialized\((?P=state)\);
    if \(!(?P=known)\) goto (?P<first>CPyL\d+);
    {_R} = PyImport_GetModuleDict\(\);
    {_R} = (?P<name>CPyStatics\[\d+\]);[^\n]*
    (?P<found>{_R}) = CPyDict_GetItem\({_R}, {_R}\);
    if \(unlikely\((?P=found) == NULL\)\) \{{
        (?P<failed>{_FAILED})
    \}}
    (?P<result>{_R}) = (?P=found);
    goto (?P<ready>CPyL\d+);
(?P=first): ;
(?:[^\n]*\n)*?    (?P<new>{_R}) = CPyImport_ImportNative\([^\n]*, 0\);
{_LINES}        (?P=failed)
    \}}
    (?P=result) = (?P=new);
(?P=ready): ;"""
# Then the names that are imported, as they are in both modules, and the end of the reference.
_NAMES = rf"""
    (?P<names>{_R}) = (?P<names_of>CPyStatics\[\d+\]);[^\n]*
(?:    (?P<targets>{_R}) = (?P<targets_of>CPyStatics\[\d+\]);[^\n]*
)?    {_R} = (?P<globals>CPyStatic_\w+);
    (?P<got>{_R}) = CPyImport_GetNativeAttrs\((?P=result), (?P=names), {_R}, {_R}\);
    CPy_DECREF\((?P=result)\);
    if \(unlikely\((?P=got) == NULL\)\) \{{
        (?P=failed)
    \}} else
        goto (?P<end>CPyL\d+);
(?P<next>CPyL\d+): ;"""
_FROM = re.compile(_IMPORT + _NAMES)
_WHOLE = re.compile(_IMPORT)
_END_OF_FUNCTION = "\n}\n"

_DEFINITIONS = f"""\
struct CPyNativeModule {{
    CPyModuleCache *cache;
    CPyImportState *state;
    PyObject *(*create)(void);
    int (*execute)(PyObject *);
    CPyModule **created;
}};
{_IMPORTS}
{{
    PyObject *found = NULL, *file = NULL, *suffix = NULL;
    if (CPyImport_IsInitialized(module->state))
        return CPyDict_GetItem(PyImport_GetModuleDict(), name);
    PyObject *library = PyImport_ImportModule("@LIBRARY@");
    if (library != NULL) file = PyObject_GetAttrString(library, "__file__");
    if (file != NULL) suffix = PyUnicode_FromString("{EXTENSION_SUFFIXES[0]}");
    if (suffix != NULL)
        found = CPyImport_ImportNative(name, module->create, module->execute, module->created,
            module->cache, module->state, CPyModuleLockAPI_@GROUP@, file, suffix, 0);
    Py_XDECREF(suffix);
    Py_XDECREF(file);
    Py_XDECREF(library);
    return found;
}}
{_IMPORTS_NAMES}
{{
    PyObject *found = CPyNative_import(module, name);
    if (found == NULL) return -1;
    PyObject *got = CPyImport_GetNativeAttrs(found, names, targets, globals);
    Py_DECREF(found);
    if (got == NULL) return -1;
    Py_DECREF(got);
    return 0;
}}
"""


def with_short_imports(source: str) -> str:
    """Return the C file of a module with a call for each import of a module of the library.

    Args:
        source: the file, with places in mypyc's one table of constants.
    """
    if "CPyImport_ImportNative(" not in source:
        return source
    functions = [_shortened(each) for each in source.split(_END_OF_FUNCTION)]
    source = _END_OF_FUNCTION.join(functions)
    assert "CPyImport_ImportNative(" not in source, "an import is written in another way"
    return source


def _shortened(function: str) -> str:
    """Return the text of a function with short imports."""
    ends = []

    def names(found: re.Match[str]) -> str:
        # The reference to the module ended in a block of its own.
        ends.append(
            f"\n{found['end']}: ;\n    CPy_DECREF({found['got']});\n    goto {found['next']};"
        )
        what = f"&CPyNative_{found['module']}, {found['name']}"
        targets = found["targets_of"] or found["names_of"]
        return f"""
    if (unlikely(CPyNative_import_names({what}, {found["names_of"]}, {targets}, \
{found["globals"]}) < 0)) {{
        {found["failed"]}
    }}
{found["next"]}: ;"""

    def whole(found: re.Match[str]) -> str:
        return f"""
    {found["result"]} = CPyNative_import(&CPyNative_{found["module"]}, {found["name"]});
    if (unlikely({found["result"]} == NULL)) {{
        {found["failed"]}
    }}
{found["ready"]}: ;"""

    function = _WHOLE.sub(whole, _FROM.sub(names, function))
    for end in ends:
        assert function.count(end) == 1, end
        function = function.replace(end, "")
    return function


def declared(module: str) -> str:
    """Return the declarations for files that import a module.

    Args:
        module: its name, as C has it.
    """
    return f"extern {_DESCRIPTION.format(module)};\nextern {_IMPORTS};\nextern {_IMPORTS_NAMES};\n"


def defined(library: str, group: str, modules: Iterable[str]) -> str:
    """Return the functions that import, and the descriptions of modules, for the library's file."""
    descriptions = (
        f"{_DESCRIPTION.format(each)} = {{&CPyModule_{each}, &CPyImportState_{each},"
        f" CPyInitOnly_{each}, CPyExec_{each}, &CPyModule_{each}__internal}};\n"
        for each in modules
    )
    functions = _DEFINITIONS.replace("@LIBRARY@", library).replace("@GROUP@", group)
    return functions + "".join(descriptions)
