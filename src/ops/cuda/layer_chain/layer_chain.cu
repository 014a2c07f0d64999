#include "ops/cuda/device_code/per_device.h"
#include "ops/cuda/device_code/sm90a.cuh"
#include "ops/cuda/layer_chain/chain_kernel.cuh"

namespace nibble::ops::cuda {
namespace {

// Whether kernels of other processes may run beside ours on the device: two chains at once would
// wait for each other.
bool shares_multiprocessors() {
  int device = 0;
  int mps = 0;
  device::cuda::check(cudaGetDevice(&device), "cudaGetDevice");
  device::cuda::check(cudaDeviceGetAttribute(&mps, cudaDevAttrMpsEnabled, device),
                      "cudaDeviceGetAttribute");
  return mps != 0;
}

using Launcher = void (*)(const ChainArguments&, int, cudaStream_t);

template <typename... Kinds>
Launcher launcher_among(const UnitFormat& format) {
  Launcher launcher = nullptr;
  ((format == Kinds::format() ? launcher = launch_chain_of<Kinds> : nullptr), ...);
  return launcher;
}

// Null: there is no kernel.
Launcher launcher_of(const UnitFormat& format) {
  return launcher_among<ChainedInt4, ChainedInt4By32, ChainedInt4WithZeros,
                        ChainedInt4WithZerosBy32, ChainedInt4WithShiftsBy32, ChainedBook,
                        ChainedBookBy32>(format);
}

}  // namespace

int chain_shared_bytes() {
  return of_current_device([] {
    const bool runs =
        runs_for_sm90a(chain_kernel<ChainedInt4, NoHeads>) && !shares_multiprocessors();
    return runs ? max_shared_bytes() : 0;
  });
}

bool has_chain_kernel(const UnitFormat& format) {
  return launcher_of(format) != nullptr;
}

void launch_chain(const ChainArguments& a, int blocks, cudaStream_t stream) {
  launcher_of(a.format)(a, blocks, stream);
}

}  // namespace nibble::ops::cuda
