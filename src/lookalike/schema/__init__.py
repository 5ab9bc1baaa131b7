"""Public facts about a table: columns, codes, formats, times, rules and questions. Nothing here opens a private table.

Lists and bounds come from a schema file, from the types of a table, or, already paid for, from discovery. The functions
that turn values into codes (`codec.py`, `storage.py`, `probes.py`) work on arrays that the door passes to them.
"""
