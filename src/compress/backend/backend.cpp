#include "compress/backend/backend.h"

namespace nibble::compress {

Backend make_backend(const device::Place& place, core::ThreadPool& pool) {
  return place.on_gpu() ? make_cuda_backend(place.index, pool) : Backend(pool);
}

}  // namespace nibble::compress
