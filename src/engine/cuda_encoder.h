#pragma once

#include <memory>

#include "engine/encoder.h"

namespace nibble::engine {

/// As make_encoder(), on an NVIDIA GPU, of a model with an encoder.
std::unique_ptr<Encoder> make_cuda_encoder(std::shared_ptr<const models::Model> model,
                                           const RunnerOptions& options);

}  // namespace nibble::engine
