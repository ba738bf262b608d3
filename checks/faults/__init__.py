"""One check a file, named for the fault it reports: a pure function from frames to one finding."""
