"""llama.cpp through its C API: the only package that imports llama_cpp."""
