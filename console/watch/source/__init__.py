"""What a console reads: a store that grows, or a log that is read once."""
