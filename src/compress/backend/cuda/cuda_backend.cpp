#include "compress/backend/backend.h"
#include "compress/backend/cuda/cuda_context.h"

namespace nibble::compress {

Backend make_cuda_backend(int gpu, core::ThreadPool& pool) {
  return {pool, std::make_shared<cuda::CudaContext>(gpu)};
}

}  // namespace nibble::compress
