"""One module per subcommand of `roundhouse`."""
