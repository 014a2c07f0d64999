#pragma once

#include <cstdint>

#include "ops/cuda/gemm/gemm.h"

/// What plans are chosen by, whatever the weights' layout.
namespace nibble::ops::cuda {

struct GemmDevice {
  int multiprocessors = 0;
  bool wgmma = false;
};

/// The current device, which is asked once.
GemmDevice gemm_device();

/// How often the plan's blocks of threads take tiles, for so many rows and tokens.
std::int64_t gemm_rounds(const GemmPlan& plan, std::int64_t rows, int tokens);

/// A model of their time: each lasts as long as its tokens, and what a tile costs beside them.
double time_of_rounds(const GemmPlan& plan, std::int64_t rounds);

}  // namespace nibble::ops::cuda
