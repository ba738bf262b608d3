"""The operations console: what `roundhouse watch` shows."""
