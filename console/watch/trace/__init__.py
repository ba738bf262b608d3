"""From a session to its turns to single tokens: what the console's drill-down draws, without a terminal."""
