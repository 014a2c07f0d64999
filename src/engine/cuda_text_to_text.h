#pragma once

#include <memory>

#include "engine/text_to_text.h"

namespace nibble::engine {

/// As make_text_to_text(), on an NVIDIA GPU, of a model with both stacks.
std::unique_ptr<TextToText> make_cuda_text_to_text(std::shared_ptr<const models::Model> model,
                                                   const RunnerOptions& options);

}  // namespace nibble::engine
