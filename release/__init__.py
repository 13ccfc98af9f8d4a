"""Builds what a release consists of, checks it, and installs each file once: `make release`.

Nothing is signed or published: a workflow of the forge does that, with the rights of the forge.
"""
