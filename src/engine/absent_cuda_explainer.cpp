#include "device/cuda_devices.h"
#include "engine/kernel_explainer.h"

namespace nibble::engine {

// In the place of cuda_explainer.cpp where the back end is not built.
std::unique_ptr<KernelExplainer> make_cuda_explainer(const RunnerOptions& runner) {
  device::require_cuda_device(runner.place.index);  // says why there is none
  return nullptr;
}

}  // namespace nibble::engine
