"""Consumers of events: text, live panel, summary, JSON."""
