"""What a reviewer reads to check the guarantee: the one door to private rows, its mechanisms and its accounting.

Reading order: `door` (opens a table, caps the rows of each person, answers, hides faults); `mechanisms` (noise and
choices) and `thresholds`; `accounting` (neighbours, budgets, prices, charges); what callers pass in: `requests`.
"""
