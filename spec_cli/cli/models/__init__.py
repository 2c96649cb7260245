"""`spec-cli models` and `spec-cli pull`: what is known, what is here, what fits together."""
