"""Runs tests with the Python of Windows, under Wine.

__main__       the program: `python -m tests.windows`
compiled       the compiled form, built by clang as by Microsoft's compiler
installation   Wine, Python from Maven Central, wheels from PyPI
"""
