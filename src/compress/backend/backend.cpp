#include "compress/backend/backend.h"

namespace nibble::compress {

Backend make_backend(Device device, core::ThreadPool& pool) {
  return device == Device::kCuda ? make_cuda_backend(pool) : Backend(pool);
}

}  // namespace nibble::compress
