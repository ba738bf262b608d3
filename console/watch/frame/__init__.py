"""What surrounds every screen: head rows, tabs, crumbs, keys, the command line."""
