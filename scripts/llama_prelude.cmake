# Read by llama-cpp-python's CMakeLists.txt right after its project() command.
#
# The package forces the next two in CMake's cache; a plain variable that is set before wins.

# llama.cpp's own commands need `common`. It is 40 % of the work and never loaded from Python.
set(LLAMA_BUILD_COMMON OFF)

# On macOS: as the options say, not always on.
if(DEFINED GGML_METAL)
  set(GGML_METAL ${GGML_METAL})
endif()

add_compile_options(
  "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include \"${CMAKE_CURRENT_LIST_DIR}/llama_amx.h\">")
