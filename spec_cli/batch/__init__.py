"""Many prompts with one load: lines in, results out, in order and resumable."""
