"""The variants that follow a paper to the letter, changed only where privacy demands it. One file per paper."""
