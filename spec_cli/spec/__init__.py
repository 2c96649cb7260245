"""The theory of speculative decoding: pure numpy, no I/O, no clock, no llama.cpp."""
