#include "device/cuda_devices.h"
#include "engine/divided_runner.h"

namespace nibble::engine {

// In the place of cuda_runner.cpp where the back end is not built.
std::unique_ptr<Runner> make_cuda_runner(std::shared_ptr<const models::Model> /*model*/,
                                         const RunnerOptions& options) {
  device::require_cuda_device(options.place.index);  // says why there is none
  return nullptr;
}

std::unique_ptr<Runner> make_cuda_rank_runner(std::shared_ptr<const models::Model> model,
                                              const RunnerOptions& options,
                                              const std::shared_ptr<ranks::Communicator>&) {
  return make_cuda_runner(std::move(model), options);
}

}  // namespace nibble::engine
