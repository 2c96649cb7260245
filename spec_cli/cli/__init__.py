"""The command line: parsing, wiring, exit codes."""
