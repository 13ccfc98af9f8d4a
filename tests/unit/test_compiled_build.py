"""What a build of the compiled form makes again, and how Python finds its modules."""

import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import module_from_spec
from inspect import getsource
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from compilation.bytecode import write_bytecode
from compilation.c_declarations import Declarations
from compilation.freshness import (
    digest_of_sources,
    forget,
    is_fresh,
    is_made,
    note_of,
    remember,
)
from compilation.selection import HOT, compiled_modules, interpreted_modules, is_hot
from compilation.tree import ROOT
from coterie.protocol.fields import Declaration
from coterie.protocol.schema import fields_of
from tests.codecs.catalogue import MESSAGES

TYPES = """\
#ifndef MYPYC_NATIVE_coterie_H
#define MYPYC_NATIVE_coterie_H
#include <Python.h>
#include <CPy.h>
#ifndef MYPYC_DECLARED_tuple_T2OO
#define MYPYC_DECLARED_tuple_T2OO
typedef struct tuple_T2OO {
    PyObject *f0;
    PyObject *f1;
} tuple_T2OO;
#endif
typedef struct {
    PyObject_HEAD
    tuple_T2OO _pair;
} coterie___log___LogObject;
typedef struct {
    PyObject_HEAD
    CPyTagged _size;
} coterie___index___IndexObject;
#endif
"""
FUNCTIONS = """\
#include <Python.h>
#include "strings/librt_strings_api.h"
#include "__native_coterie.h"

int CPyGlobalsInit(void);

extern PyObject *CPyStatics[12];
extern const char * const CPyLit_Str[];
extern PyTypeObject *CPyType_log___Log;
extern PyTypeObject *CPyType_index___Index;
extern CPyThreadLocal coterie___log___LogObject *log___Log_free_instance;
RUNS_ONCE extern char CPyDef_log_____top_level__(void);
extern PyObject *CPyDef_log___Log___append(PyObject *cpy_r_self, tuple_T2OO cpy_r_pair);
extern CPyTagged CPyDef_index___size(coterie___index___IndexObject *cpy_r_index);
"""
SOURCE = '#include "__native_coterie.h"\n#include "__native_internal_coterie.h"\n'


def test_a_file_gets_the_declarations_that_it_names_and_what_they_name() -> None:
    text = Declarations(TYPES, FUNCTIONS).needed_by("x = CPyDef_log___Log___append(self, pair);")
    assert [line for line in text.splitlines() if not line.startswith((" ", "}"))] == [
        "#ifndef MYPYC_DECLARED_tuple_T2OO",
        "#define MYPYC_DECLARED_tuple_T2OO",
        "typedef struct tuple_T2OO {",
        "#endif",
        "extern PyObject *CPyDef_log___Log___append(PyObject *cpy_r_self, tuple_T2OO cpy_r_pair);",
    ]


def test_instances_that_are_used_again_are_declared_with_their_type() -> None:
    text = Declarations(TYPES, FUNCTIONS).needed_by("(coterie___log___LogObject *)self")
    assert "*log___Log_free_instance;" in text
    assert text.index("tuple_T2OO;") < text.index("} coterie___log___LogObject;")
    assert "Index" not in text


def test_a_change_of_another_class_does_not_change_a_file() -> None:
    source = f"{SOURCE}CPyDef_log___Log___append(self, pair);\n"
    before = Declarations(TYPES, FUNCTIONS).completed(source)
    changed = TYPES.replace("CPyTagged _size;", "CPyTagged _size;\n    CPyTagged _first;")
    more = FUNCTIONS.replace("CPyStatics[12]", "CPyStatics[13]")
    assert Declarations(changed, more).completed(source) == before
    other = TYPES.replace("tuple_T2OO _pair", "CPyTagged _more;\n    tuple_T2OO _pair")
    user = f"{SOURCE}coterie___log___LogObject *log;\n"
    assert Declarations(other, more).completed(user) != Declarations(TYPES, more).completed(user)


def test_a_file_includes_what_is_not_of_its_own_modules() -> None:
    text = Declarations(TYPES, FUNCTIONS).completed(f"{SOURCE}int x;\n")
    assert [line for line in text.splitlines() if line] == [
        "#include <Python.h>",
        "#include <CPy.h>",
        '#include "strings/librt_strings_api.h"',
        "int x;",
    ]


def test_a_constant_that_mypyc_takes_as_never_set_ends_the_build() -> None:
    pytest.importorskip("mypyc", reason="only the extra dev has mypyc")
    from compilation.module_code import never_set

    wrong = "if (likely(cpy_r_r14.f0 != -113.0 && PyErr_Occurred())) goto CPyL15;"
    right = "if (unlikely(cpy_r_r14 == -113.0 && PyErr_Occurred())) goto CPyL15;"
    assert never_set(f"{right}\n{wrong}\n") == ["cpy_r_r14.f0"]


def test_private_attributes_are_no_macros_of_a_system() -> None:
    types = TYPES.replace("CPyTagged _size;", "CPyTagged __cold;\n    PyObject *_warm;")
    text = Declarations(types, FUNCTIONS).completed(f"{SOURCE}coterie___index___IndexObject *a;\n")
    assert [line for line in text.splitlines() if line.startswith("#undef")] == ["#undef __cold"]
    include, free, use = map(text.index, ("#include <CPy.h>", "#undef", "CPyTagged __cold;"))
    assert include < free < use


def test_a_new_constant_in_another_module_does_not_change_a_file() -> None:
    pytest.importorskip("mypyc", reason="only the extra dev has mypyc")
    from compilation.c_literals import with_own_literals

    source = """\
x = CPyStatics[{0}]; y = CPyStatics[{1}]; z = CPyStatics[1];
int CPyExec_coterie___log(PyObject *module)
{{
    return 0;
}}
"""
    before = with_own_literals(source.format(4, 6), {1: False, 4: "topic", 6: ("a", 7)})
    after = with_own_literals(source.format(9, 40), {1: False, 9: "topic", 40: ("a", 7)})
    assert after == before
    # Three singletons, two texts, a number and a tuple.
    assert "static PyObject *CPyStatics[7];" in before
    assert "x = CPyStatics[3]; y = CPyStatics[6]; z = CPyStatics[1];" in before
    assert before.endswith("{\n    if (CPyLiterals_make() < 0) return -1;\n    return 0;\n}\n")
    changed = with_own_literals(source.format(4, 6), {1: False, 4: "Topic", 6: ("a", 7)})
    assert changed != before


def test_a_file_names_itself_in_one_traceback() -> None:
    pytest.importorskip("mypyc", reason="only the extra dev has mypyc")
    from compilation.c_tracebacks import with_own_tracebacks

    call = '    CPy_AddTraceback("{}.py", "f", {}, CPyStatic_a___globals);\n'
    source = "".join(call.format(*each) for each in (("a", 7), ("a", -1), ("b", 8)))
    text = with_own_tracebacks(source)
    assert text.count('CPy_AddTraceback("a.py", function, line, CPyStatic_a___globals);') == 1
    assert '    was_at("f", 7);\n    was_at("f", -1);\n' in text
    assert call.format("b", 8) in text, "it is of another file"
    assert with_own_tracebacks("int f(void);\n") == "int f(void);\n"


# What mypyc writes for `from coterie.log import Log`.
IMPORT = """\
int f(void) {
    cpy_r_r0 = (void *)&CPyModule_coterie___log;
    cpy_r_r1 = (void *)&CPyImportState_coterie___log;
    cpy_r_r2 = CPyModuleLockAPI_coterie;
    cpy_r_r3 = CPyImport_IsInitialized(cpy_r_r1);
    if (!cpy_r_r3) goto CPyL2;
    cpy_r_r4 = PyImport_GetModuleDict();
    cpy_r_r5 = CPyStatics[4]; /* 'coterie.log' */
    cpy_r_r6 = CPyDict_GetItem(cpy_r_r4, cpy_r_r5);
    if (unlikely(cpy_r_r6 == NULL)) {
        was_at("f", 3);
        goto CPyL8;
    }
    cpy_r_r7 = cpy_r_r6;
    goto CPyL5;
CPyL2: ;
    cpy_r_r8 = CPyImport_ImportNative(cpy_r_r5, CPyInitOnly_coterie___log, cpy_r_r9, 0);
    CPy_DECREF(cpy_r_r9);
    if (unlikely(cpy_r_r8 == NULL)) {
        was_at("f", 3);
        goto CPyL8;
    }
    cpy_r_r7 = cpy_r_r8;
CPyL5: ;
"""
NAMES = """\
    cpy_r_r10 = CPyStatics[6]; /* ('Log',) */
    cpy_r_r11 = CPyStatic_index___globals;
    cpy_r_r12 = CPyImport_GetNativeAttrs(cpy_r_r7, cpy_r_r10, cpy_r_r10, cpy_r_r11);
    CPy_DECREF(cpy_r_r7);
    if (unlikely(cpy_r_r12 == NULL)) {
        was_at("f", 3);
        goto CPyL8;
    } else
        goto CPyL9;
CPyL7: ;
    return 1;
CPyL8: ;
    return 2;
CPyL9: ;
    CPy_DECREF(cpy_r_r12);
    goto CPyL7;
}
"""


def test_an_import_of_a_compiled_module_is_one_call() -> None:
    from compilation.c_imports import with_short_imports

    failed = '{\n        was_at("f", 3);\n        goto CPyL8;\n    }'
    assert with_short_imports(IMPORT + NAMES) == (
        "int f(void) {\n    if (unlikely(CPyNative_import_names(&CPyNative_coterie___log,"
        f" CPyStatics[4], CPyStatics[6], CPyStatics[6], CPyStatic_index___globals) < 0)) {failed}\n"
        "CPyL7: ;\n    return 1;\nCPyL8: ;\n    return 2;\n}\n"
    )
    module = "    cpy_r_r7 = CPyNative_import(&CPyNative_coterie___log, CPyStatics[4]);\n"
    assert with_short_imports(IMPORT + "}\n") == (
        f"int f(void) {{\n{module}    if (unlikely(cpy_r_r7 == NULL)) {failed}\nCPyL5: ;\n}}\n"
    )
    with pytest.raises(AssertionError, match="another way"):
        with_short_imports(IMPORT.replace("goto CPyL5", "goto CPyL6"))


def test_wrappers_that_nothing_calls_are_left_out() -> None:
    from compilation.c_wrappers import without_unused_wrappers

    names = ("begin", "_step", "_named", "f__glue", "C_____init__")
    wrappers = [
        f"\n        PyObject *CPyPy_{name}(PyObject *self) {{\n            return 0;\n"
        "        }\n        \n"
        for name in names
    ]
    entries = [
        f'    {{"{name}", (PyCFunction)CPyPy_{name}, METH_FASTCALL, NULL}},\n' for name in names[:3]
    ]
    table = "static PyMethodDef methods[] = {\n"
    left = without_unused_wrappers(table + "".join(entries + wrappers), {"_named"})
    assert left.startswith(f"{table}{entries[0]}{entries[2]}\n")
    assert [name for name in names if f"CPyPy_{name}(" in left] == [
        "begin",
        "_named",
        "C_____init__",
    ]


def test_an_object_is_made_again_if_what_it_is_made_of_has_changed(tmp_path: Path) -> None:
    made = tmp_path / "log.o"
    assert not is_made(made, "1")
    made.write_bytes(b"")
    note_of(made).write_text("1")
    assert is_made(made, "1")
    assert not is_made(made, "2")
    # The compiler was interrupted: what is there may be half an object of the new text.
    assert not is_made(made, "1")
    assert not is_made(made, "2")


def test_short_relocations_need_a_new_glibc() -> None:
    pytest.importorskip("mypyc", reason="only the extra dev has mypyc")
    from compilation.extension import linker_flags

    new = linker_flags("linux", "glibc", "2.36")
    assert linker_flags("linux", "glibc", "2.28") == linker_flags("linux", "", "") == new[:-1]
    assert new[-1] == "-Wl,-z,pack-relative-relocs"
    assert linker_flags("darwin", "", "") == []


# They write down how they were called.
PROGRAM = """\
#!/bin/sh
echo "$0 $@" >> "${0%/*}/log"
"""


def test_microsofts_compiler_is_found_before_threads_use_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mypyc", reason="only the extra dev has mypyc")
    from setuptools import Distribution, Extension

    from compilation.extension import ParallelBuild

    msvc: Any = import_module("distutils.compilers.C.msvc")
    found_by = []
    initialize = msvc.Compiler.initialize

    def noted(compiler: Any) -> None:
        found_by.append(threading.current_thread())
        initialize(compiler)

    monkeypatch.setattr(msvc.Compiler, "initialize", noted)
    # As in a shell that Visual Studio has prepared.
    monkeypatch.setenv("DISTUTILS_USE_SDK", "1")
    monkeypatch.setenv("_PYTHON_HOST_PLATFORM", "win-amd64")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    for name in ("cl.exe", "link.exe"):
        (tmp_path / name).write_text(PROGRAM)
        (tmp_path / name).chmod(0o755)
    files = ["dict_ops.c", "__native_coterie.c"]
    for name in files:
        (tmp_path / name).touch()
    build = ParallelBuild(Distribution({"ext_modules": [Extension("library", files)]}))
    build.compiler, build.jobs, build.is_unoptimised = "msvc", 2, True
    build.ensure_finalized()
    build.run()
    assert found_by == [threading.main_thread()]
    *compiled, linked = (tmp_path / "log").read_text().splitlines()
    assert len(compiled) == 2
    for name in files:
        (line,) = (each for each in compiled if f" /Tc{name} " in each)
        assert line.endswith(" /Od"), "after the level that setuptools gives"
        assert " -" not in line.replace(" -I", ""), "an option of gcc"
        assert name.replace(".c", ".obj") in linked


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A small repository with a compiled form that is up to date."""
    for name in ("coterie/protocol/wire.py", "compilation/tree.py", "requirements-dev.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1\n")
    (tmp_path / f"coterie__mypyc{EXTENSION_SUFFIXES[0]}").write_bytes(b"")
    remember(digest_of_sources(tmp_path), tmp_path)
    return tmp_path


def is_up_to_date(sources: Path) -> bool:
    """Whether the compiled form is, which is beside its sources here."""
    return is_fresh(sources, sources)


def test_the_form_is_up_to_date_until_a_source_changes(sources: Path) -> None:
    pytest.importorskip("librt", reason="only the extra dev has the run-time library of mypyc")
    assert is_up_to_date(sources)
    (sources / "coterie/__pycache__").mkdir()
    (sources / "coterie/__pycache__/wire.pyc").write_bytes(b"1")
    assert is_up_to_date(sources)
    for path in ("coterie/protocol/wire.py", "compilation/tree.py", "requirements-dev.txt"):
        (sources / path).write_text("2\n")
        assert not is_up_to_date(sources)
        (sources / path).write_text("1\n")
        assert is_up_to_date(sources)
    (sources / "coterie/protocol/wire.py").rename(sources / "coterie/protocol/wires.py")
    assert not is_up_to_date(sources)


def test_a_form_that_was_not_finished_is_not_up_to_date(sources: Path) -> None:
    forget(sources)
    assert not is_up_to_date(sources)


def test_a_form_without_its_library_is_not_up_to_date(sources: Path) -> None:
    (sources / f"coterie__mypyc{EXTENSION_SUFFIXES[0]}").unlink()
    assert not is_up_to_date(sources)


def test_a_form_without_optimisation_is_only_up_to_date_for_tests(sources: Path) -> None:
    pytest.importorskip("librt", reason="only the extra dev has the run-time library of mypyc")
    remember(digest_of_sources(sources), sources, is_unoptimised=True)
    assert not is_up_to_date(sources)
    assert is_fresh(sources, sources, allow_unoptimised=True)
    (sources / "coterie/protocol/wire.py").write_text("2\n")
    assert not is_fresh(sources, sources, allow_unoptimised=True)


def test_hot_modules_exist_and_are_compiled() -> None:
    modules = {
        ".".join(module.with_suffix("").parts) for module in compiled_modules(ROOT / "coterie")
    }
    # It is written by hand for the compiled form.
    modules.add("protocol.wire_bytes")
    for name in HOT:
        assert any(f"{module}.".startswith(f"{name}.") for module in modules), name
    names = {module: f"__native_coterie___{module.replace('.', '___')}.c" for module in modules}
    hot = {module for module, name in names.items() if is_hot(name)}
    assert {
        "protocol.wire_bytes",
        "server.network.connection",
        "protocol.messages.sync_group",
    } <= hot
    assert "server.handlers.list_offsets" not in hot
    # mypyc's own library is always used; the file of the library runs once.
    assert is_hot("dict_ops.c")
    assert not is_hot("__native_coterie.c")


def test_what_is_rarely_asked_for_is_interpreted() -> None:
    package = ROOT / "coterie"
    compiled, interpreted = set(compiled_modules(package)), set(interpreted_modules(package))
    assert not compiled & interpreted
    rare = {
        Path("server/handlers/create_topics.py"),
        Path("protocol/messages/describe_quorum.py"),
        Path("coordinator/groups/share/describe.py"),
    }
    assert rare <= interpreted
    often = {Path(f"protocol/messages/{each}.py") for each in ("list_offsets", "delete_groups")}
    assert often <= compiled


def structures_of(cls: type[Declaration]) -> Iterator[type[Declaration]]:
    """Yield the structures in a declaration, also those in others."""
    for field in fields_of(cls):
        kind = field.type
        while kind.element is not None:
            kind = kind.element
        if kind.struct is not None:
            yield kind.struct
            yield from structures_of(kind.struct)


def test_an_interpreted_message_has_no_compiled_structure() -> None:
    compiled = {
        ".".join(("coterie", *module.with_suffix("").parts))
        for module in compiled_modules(ROOT / "coterie")
    }
    pairs = {
        (cls.__module__, structure.__module__)
        for cls in MESSAGES
        if cls.__module__ not in compiled
        for structure in structures_of(cls)
    }
    assert len(pairs) > 40
    assert not {structure for _, structure in pairs} & compiled


def test_modules_are_found_in_the_library_and_in_one_file_before_their_source(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loaded = ModuleType("coterie.storage.log")
    library = SimpleNamespace(
        __file__="/lib/coterie__mypyc.so",
        init_coterie___storage___log="capsule",
        load_module={"capsule": loaded}.__getitem__,
    )
    monkeypatch.setitem(sys.modules, "coterie__mypyc", library)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    package = tmp_path / "coterie"
    source_path = package / "security/acl.py"
    source_path.parent.mkdir(parents=True)
    source_path.write_text("number = 5\n")
    write_bytecode(package)
    source_path.write_text("number = 6\n")
    source = (ROOT / "compilation/runtime/native_modules.py").read_text()
    place = {"__name__": "coterie.native_modules", "__file__": str(package / "native_modules.py")}
    exec(compile(source, "native_modules.py", "exec"), place)
    native: Any = sys.meta_path[0]
    spec = native.find_spec("coterie.storage.log", None)
    assert spec is not None
    assert spec.origin == "/lib/coterie__mypyc.so"
    assert spec.loader is native
    assert native.create_module(spec) is loaded
    mapped: Any = sys.meta_path[1]
    module = module_from_spec(found := mapped.find_spec("coterie.security.acl", None))
    found.loader.exec_module(module)
    assert (module.number, module.__file__) == (5, str(source_path))
    assert getsource(module) == "number = 6\n"
    for finder in (native, mapped):
        assert finder.find_spec("coterie.storage", None) is None
        assert finder.find_spec("storage.log", None) is None
