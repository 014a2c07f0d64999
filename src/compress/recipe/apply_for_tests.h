#pragma once

#include "compress/recipe/pass.h"

namespace nibble::compress {

inline void apply_on_cpu(const Pass& pass, SetWork& work, core::ThreadPool& pool) {
  CpuArithmetic arithmetic(pool);
  pass.apply(work, arithmetic);
}

}  // namespace nibble::compress
