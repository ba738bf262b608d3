"""How `roundhouse train` is stopped and shown, and what it does beside its cycles."""
