"""Constants of modules, marked as `Final`: compiled code reads them without a lookup.

A constant is a name in lower case or capitals that its module assigns once, at its top level.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator

# Aliases of types are written in CamelCase.
_NAME = re.compile(r"_*[a-z][a-z0-9_]*|_*[A-Z][A-Z0-9_]+")


def with_final_constants(source: str) -> str:
    """Return the source of a module with its constants marked as `Final`."""
    tree = ast.parse(source)
    candidates = list(_candidates(tree))
    if not candidates:
        return source
    assigned, shared = _assigned(tree)
    lines = source.splitlines(keepends=True)
    marked = False
    for node, target in candidates:
        if target.id in shared or assigned[target.id] != 1:
            continue
        text = lines[target.lineno - 1]
        if isinstance(node, ast.AnnAssign):
            annotation = node.annotation
            if annotation.end_lineno != target.lineno or "Final" in ast.unparse(annotation):
                continue
            start, stop = annotation.col_offset, annotation.end_col_offset or 0
            text = f"{text[:start]}Final[{text[start:stop]}]{text[stop:]}"
        else:
            stop = target.end_col_offset or 0
            text = f"{text[:stop]}: Final{text[stop:]}"
        lines[target.lineno - 1] = text
        marked = True
    if not marked:
        return source
    return with_import("".join(lines), "from typing import Final\n")


def _candidates(tree: ast.Module) -> Iterator[tuple[ast.Assign | ast.AnnAssign, ast.Name]]:
    """Yield the statements that assign a name like a constant's at the top level, and the name."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target: ast.expr = node.targets[0]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            target = node.target
        else:
            continue
        if isinstance(target, ast.Name) and _NAME.fullmatch(target.id):
            yield node, target


def _assigned(tree: ast.Module) -> tuple[Counter[str], set[str]]:
    """Return how often each name is assigned anywhere, and the names that functions share.

    Attributes of a class, such as the members of an enumeration, are not names of the module.
    """
    assigned: Counter[str] = Counter()
    shared: set[str] = set()
    attributes = {
        id(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            assigned[node.id] += id(node) not in attributes
        elif isinstance(node, ast.Global):
            shared.update(node.names)
    return assigned, shared


def with_import(source: str, line: str) -> str:
    """Return the source of a module with another import at its top."""
    tree = ast.parse(source)
    first = 0
    if ast.get_docstring(tree, clean=False) is not None:
        first = tree.body[0].end_lineno or 0
    lines = source.splitlines(keepends=True)
    lines.insert(first, line)
    return "".join(lines)
