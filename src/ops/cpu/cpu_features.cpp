#include "ops/cpu/cpu_features.h"

#include "ops/cpu/architecture/architecture.h"

namespace nibble::ops::cpu {

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect_cpu_features();
  return features;
}

}  // namespace nibble::ops::cpu
