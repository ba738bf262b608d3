"""What `roundhouse doctor` reads, asks and prints."""
