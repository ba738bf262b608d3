"""The console's own widgets, drawn line by line."""
