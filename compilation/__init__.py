"""The compiled form of Coterie: codecs written out as modules, mypyc, the compiled wheel.

Nothing here is installed; see docs/adr/ on compilation and `python -m compilation --help`.
"""
