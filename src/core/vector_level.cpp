#include "core/vector_level.h"

namespace nibble::core {
namespace {

VectorLevel asked() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0) {
    return VectorLevel::kAvx512;
  }
  if (__builtin_cpu_supports("avx2") != 0) {
    return VectorLevel::kAvx2;
  }
#endif
  return VectorLevel::kPlain;
}

}  // namespace

VectorLevel vector_level() {
  static const VectorLevel level = asked();
  return level;
}

}  // namespace nibble::core
