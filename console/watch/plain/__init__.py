"""The text twins of the screens."""
