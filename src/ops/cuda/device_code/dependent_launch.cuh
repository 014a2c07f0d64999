#pragma once

#include <utility>

#include <cuda_runtime.h>

#include "device/cuda/check.h"

/// Programmatic dependent launch: a kernel starts while its predecessor in the stream still runs,
/// and waits for its results only where it needs them. Devices before sm_90 wait at the start.
namespace nibble::ops::cuda {

/// Lets the next kernel of the stream start. Its blocks are placed when those of this kernel leave
/// room.
__device__ __forceinline__ void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/// Waits until all kernels before this one in the stream have ended and their writes can be seen.
/// Before this, only what no kernel of the stream writes may be read, and nothing may be written.
__device__ __forceinline__ void wait_for_predecessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Launches `kernel`, its blocks in clusters of `cluster` (1 before sm_90), so that it may start
/// before its predecessor has ended. The kernel must call wait_for_predecessor().
template <typename... Parameters, typename... Arguments>
void launch_clusters(void (*kernel)(Parameters...), dim3 grid, dim3 block, unsigned cluster,
                     std::size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = cluster;
  attributes[1].val.clusterDim.y = 1;
  attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = cluster > 1 ? 2 : 1;
  device::cuda::check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...),
                      "cudaLaunchKernelEx");
}

/// The same without clusters.
template <typename... Parameters, typename... Arguments>
void launch_dependent(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                      std::size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  launch_clusters(kernel, grid, block, 1, shared_bytes, stream,
                  std::forward<Arguments>(arguments)...);
}

/// The most shared memory that a block can have on this device.
inline int max_shared_bytes() {
  static const int bytes = [] {
    int value = 0;
    device::cuda::check(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0),
                        "cudaDeviceGetAttribute");
    return value;
  }();
  return bytes;
}

/// Lets blocks of `kernel` have so many bytes of dynamic shared memory. Cheap when they are few.
template <typename Kernel>
void allow_shared_bytes(Kernel* kernel, int bytes) {
  constexpr int kAlwaysAllowed = 48 * 1024;
  if (bytes > kAlwaysAllowed) {
    device::cuda::check(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "cudaFuncSetAttribute");
  }
}

}  // namespace nibble::ops::cuda
