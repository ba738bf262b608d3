"""What each screen shows, as records: made from what is held, without a terminal."""
