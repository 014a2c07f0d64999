#pragma once

#include <string_view>

#include "core/placement.h"

namespace nibble::ops {

/// What packed layers see of their activations on a CPU.
enum class ActivationPrecision {
  kInt8,   // dynamic INT8 for each group: the fast path
  kInt16,  // dynamic integers of 16 bits for each group, by the same kernels: as exact as float but
           // for books, whose INT8 tables it shares. Only where a scheme leaves activations alone.
  kFloat,  // float32 activations times decoded weights: exact and slow. Schemes that quantize
           // activations do so here too.
};

/// "int8", "int16" or "float". Throws kUsage for anything else.
ActivationPrecision parse_activations(std::string_view text);

/// How work runs on the host's processors.
struct CpuOptions {
  int threads = 0;  // 0: one for each core
  ActivationPrecision activations = ActivationPrecision::kInt8;
  bool pin = false;  // each thread but the caller's on a core of its own
  core::Numa numa = core::Numa::kNone;
};

}  // namespace nibble::ops
