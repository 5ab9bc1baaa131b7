"""Time and memory: drawing many rows, drawing noise, and the rates behind the forecast of a plan."""
