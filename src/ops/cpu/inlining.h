#pragma once

/// What becomes of functions of kernels, whatever the compiler would choose.
#define NIBBLE_INLINE inline __attribute__((always_inline))
#define NIBBLE_INLINE_LAMBDA __attribute__((always_inline))
#define NIBBLE_NOINLINE \
  __attribute__((noinline))  // one set of registers and one stack frame for each kernel
