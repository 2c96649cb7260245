"""A conversation with a model, as values and a state machine: no terminal, no files."""
