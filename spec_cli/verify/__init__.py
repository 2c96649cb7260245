"""Checks that speculative decoding gives the text of plain decoding, on this machine."""
