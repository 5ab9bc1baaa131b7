"""Accuracy of methods: on the papers' tables, on held-out ones, over all budgets, from raw files; error bars."""
