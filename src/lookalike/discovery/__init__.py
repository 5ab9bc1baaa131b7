"""Finds the facts that a schema leaves open, by private measurements through the door and inside the run's budget."""
