#pragma once

#include <memory>

#include "engine/encoder.h"

namespace nibble::engine {

/// As make_encoder(), on a CPU, of a model with an encoder.
std::unique_ptr<Encoder> make_cpu_encoder(std::shared_ptr<const models::Model> model,
                                          const RunnerOptions& options);

}  // namespace nibble::engine
