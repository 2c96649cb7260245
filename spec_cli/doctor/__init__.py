"""What `spec-cli doctor` looks at."""
