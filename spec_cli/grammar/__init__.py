"""Grammars as text: what llama.cpp can use, and how a JSON schema becomes one."""
