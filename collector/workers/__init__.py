"""The engine workers behind one collector: which is alive, what each serves and has proved, and who is sent where."""
