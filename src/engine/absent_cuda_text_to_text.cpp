#include "device/cuda_devices.h"
#include "engine/cuda_text_to_text.h"

namespace nibble::engine {

// In the place of cuda_text_to_text.cpp where the back end is not built.
std::unique_ptr<TextToText> make_cuda_text_to_text(std::shared_ptr<const models::Model>,
                                                   const RunnerOptions& options) {
  device::require_cuda_device(options.place.index);  // says why there is none
  return nullptr;
}

}  // namespace nibble::engine
