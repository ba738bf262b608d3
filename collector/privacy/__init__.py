"""What of a turn may reach the store, and for how long it stays there."""
