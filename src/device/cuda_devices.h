#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// What devices there are, whether or not their back end was built.
namespace nibble::device {

/// One NVIDIA GPU.
struct CudaDevice {
  int index = 0;     // as the driver counts
  std::string name;  // "NVIDIA H200"
  int major = 0;     // compute capability
  int minor = 0;
  int multiprocessors = 0;
  int driver = 0;  // the CUDA version that its driver has, the first number: 13
  std::int64_t memory_bytes = 0;
  std::int64_t free_bytes = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t shared_bytes = 0;  // the most shared memory of a block
};

/// Whether this build has the CUDA back end.
bool cuda_is_built();

/// How many GPUs the driver shows. Takes no memory of them.
int cuda_device_count();

/// The GPUs that the driver shows; none when there is no driver, or no back end.
std::vector<CudaDevice> cuda_devices();

/// The GPU of that number, on which CUDA code of the calling thread runs from now on. Throws
/// kUsage, with the reason, when nothing can run there: no back end in this build, no driver, no
/// such GPU, or one older than sm_80.
CudaDevice require_cuda_device(int index = 0);

/// The GPU on which CUDA code of the calling thread runs. Throws as require_cuda_device().
CudaDevice current_cuda_device();

}  // namespace nibble::device
