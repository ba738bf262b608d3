"""The command line, the demo and the console. Imports every other package; nothing imports it."""
