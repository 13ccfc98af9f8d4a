"""Files of the repository that pages link to, shown on pages of the site."""

from pathlib import Path

from documentation import ROOT

# A directory with more files is only listed; it comes with the package.
_SHOWN_FILES = 12
_LANGUAGES = {".py": "python", ".go": "go", ".js": "js", ".java": "java", ".rs": "rust"}
_SHOWN_SUFFIXES = {*_LANGUAGES, ".txt", ".checks", ".toml", ".json", ".md"}


def shown_page(path: Path) -> str:
    """Return the Markdown of a page that shows a file, or what is in a directory."""
    name = path.relative_to(ROOT).as_posix()
    if path.is_file():
        return f"# `{name}`\n\n{_shown(path)}"
    files = [each for each in sorted(path.rglob("*")) if _is_source(each)]
    parts = [f"# `{name}`\n\n"]
    if len(files) <= _SHOWN_FILES:
        parts += [f"## {each.relative_to(path).as_posix()}\n\n{_shown(each)}\n" for each in files]
        return "".join(parts)
    parts.append(f"{len(files)} files of the repository:\n\n")
    parts += [f"* `{each.relative_to(path).as_posix()}`\n" for each in files]
    return "".join(parts)


def _is_source(path: Path) -> bool:
    is_of_package = not {"node_modules", "vendor", "__pycache__"} & set(path.parts)
    return path.is_file() and is_of_package and path.suffix in _SHOWN_SUFFIXES


def _shown(path: Path) -> str:
    language = _LANGUAGES.get(path.suffix, "text")
    return f"````{language}\n{path.read_text(encoding='utf-8').rstrip()}\n````\n"
