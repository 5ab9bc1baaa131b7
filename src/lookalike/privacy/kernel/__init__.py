"""What a reviewer reads to check the guarantee: the one door to private rows, its mechanisms and its accounting.

Reading order: `opening` (reads a table, caps the rows of each person), `door`, `reading`; the mechanisms `noise` with
`normal`, `choice`, `counting`, `thresholds`; prices: `accounting` and `neighbours`; what callers pass in: `requests`.
"""
