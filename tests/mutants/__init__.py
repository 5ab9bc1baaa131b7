"""Planted bugs: changes of the package, each of which the tests must notice. `make mutants` tries them all.

They are data of the tests and not of the package, so that no copy of a bug is ever shipped.
"""
