// Included before each C++ file of llama.cpp.
//
// GCC before 13.3 believes that ldtilecfg reads 8 of its 64 bytes and drops the stores to the
// others, so ggml's AMX kernels die of a general protection fault in their first product.
#if defined(__AMX_TILE__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 14
#include <immintrin.h>
#define _tile_loadconfig(config) \
    __asm__ volatile("ldtilecfg\t%X0" ::"m"(*(const char(*)[64])(config)))
#endif
