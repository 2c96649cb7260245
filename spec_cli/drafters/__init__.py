"""Everything that can propose tokens."""
