#include "compress/backend/absent/no_gpu.h"
#include "compress/backend/backend.h"
#include "device/cuda_devices.h"

namespace nibble::compress {

Backend make_cuda_backend(int gpu, core::ThreadPool&) {
  (void)device::require_cuda_device(gpu);  // says that there is none
  cuda::no_gpu();
}

}  // namespace nibble::compress
