#include "device/cuda_devices.h"

#include "core/error.h"
#include "device/cuda/check.h"

namespace nibble::device {
namespace {

constexpr int kOldestMajor = 8;

CudaDevice describe(int index) {
  cudaDeviceProp properties{};
  cuda::check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  CudaDevice device;
  device.index = index;
  device.name = core::printable(properties.name);
  device.major = properties.major;
  device.minor = properties.minor;
  device.multiprocessors = properties.multiProcessorCount;
  device.l2_bytes = properties.l2CacheSize;
  device.shared_bytes = static_cast<std::int64_t>(properties.sharedMemPerBlockOptin);
  int driver = 0;
  cuda::check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  device.driver = driver / 1000;
  std::size_t free = 0;
  std::size_t total = 0;
  cuda::check(cudaSetDevice(index), "cudaSetDevice");
  cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  device.free_bytes = static_cast<std::int64_t>(free);
  device.memory_bytes = static_cast<std::int64_t>(total);
  return device;
}

// The number of GPUs, or why it can't be told.
cudaError_t count_devices(int& count) {
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    cudaGetLastError();
    count = 0;
  }
  return status;
}

}  // namespace

bool cuda_is_built() {
  return true;
}

int cuda_device_count() {
  int count = 0;
  count_devices(count);
  return count;
}

std::vector<CudaDevice> cuda_devices() {
  int count = 0;
  count_devices(count);
  std::vector<CudaDevice> devices;
  for (int i = count - 1; i >= 0; --i) {  // ends with the first one as the current device
    devices.insert(devices.begin(), describe(i));
  }
  return devices;
}

CudaDevice require_cuda_device(int index) {
  int count = 0;
  const cudaError_t status = count_devices(count);
  core::require(status == cudaSuccess && count > 0, core::ErrorKind::kUsage,
                "no NVIDIA GPU can be used ({}); use --device cpu",
                status == cudaSuccess ? "none was found" : cudaGetErrorString(status));
  core::require(index < count, core::ErrorKind::kUsage,
                "there is no GPU {}: this machine has {}, counted from 0", index, count);
  CudaDevice device = describe(index);
  core::require(device.major >= kOldestMajor, core::ErrorKind::kUsage,
                "{} has compute capability {}.{}, and {}.0 is the oldest that is supported; use "
                "--device cpu",
                device.name, device.major, device.minor, kOldestMajor);
  return device;
}

CudaDevice current_cuda_device() {
  int index = 0;
  cuda::check(cudaGetDevice(&index), "cudaGetDevice");
  return require_cuda_device(index);
}

}  // namespace nibble::device
