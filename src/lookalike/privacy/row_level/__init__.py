"""Releases that read single rows, each with the proof of its price: requests for `GuardedTable.release_rows`."""
