"""What a reviewer reads to check the guarantee: the one door to private rows, its mechanisms and its accounting.

Reading order: `door` (opens a table, then answers), `reading` (hides faults, caps the rows of each person); the
mechanisms `noise` with `normal`, `choice`, `thresholds`; prices: `accounting` and `neighbours`; what callers pass in:
`requests`.
"""
