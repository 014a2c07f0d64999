#pragma once

#include "compress/recipe/pass.h"

namespace nibble::compress {

inline void apply_on_cpu(const Pass& pass, SetWork& work, core::ThreadPool& pool) {
  pass.apply(work, Backend(pool));
}

}  // namespace nibble::compress
