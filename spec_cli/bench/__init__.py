"""Measures plain decoding against other settings, in pairs of runs that stand side by side."""
