"""One module per wire shape: pure translation to and from the internal form."""
