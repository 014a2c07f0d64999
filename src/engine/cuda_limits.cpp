#include "engine/cuda_limits.h"

#include "ops/cuda/limits/multiply_add_rate.h"
#include "ops/cuda/limits/read_bandwidth.h"

namespace nibble::engine {

DeviceLimits measure_cuda_limits(const device::CudaDevice& device) {
  return {device.name, ops::cuda::measure_read_bandwidth(), ops::cuda::measure_multiply_add_rate(),
          device.l2_bytes};
}

}  // namespace nibble::engine
