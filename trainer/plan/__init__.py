"""What a loop will need and where it will wait: pure functions with units in their names, and the sheet. No torch."""
