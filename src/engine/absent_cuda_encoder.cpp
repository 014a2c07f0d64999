#include "device/cuda_devices.h"
#include "engine/cuda_encoder.h"

namespace nibble::engine {

// In the place of cuda_encoder.cpp where the back end is not built.
std::unique_ptr<Encoder> make_cuda_encoder(std::shared_ptr<const models::Model>,
                                           const RunnerOptions& options) {
  device::require_cuda_device(options.place.index);  // says why there is none
  return nullptr;
}

}  // namespace nibble::engine
