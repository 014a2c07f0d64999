#pragma once

#include <optional>

#include "device/cuda/blas_lt.h"

namespace nibble::ops::cuda {

/// cuBLASLt for the dense layers of one stream: it is opened, and its workspace taken, when a first
/// product comes.
class LtProducts {
 public:
  void multiply(const device::cuda::LtProduct& product, cudaStream_t stream) {
    if (!library_) {
      library_.emplace();
    }
    library_->multiply(product, stream);
  }

 private:
  std::optional<device::cuda::BlasLt> library_;
};

}  // namespace nibble::ops::cuda
