#pragma once

#include <memory>

#include "engine/text_to_text.h"

namespace nibble::engine {

/// As make_text_to_text(), on a CPU, of a model with both stacks.
std::unique_ptr<TextToText> make_cpu_text_to_text(std::shared_ptr<const models::Model> model,
                                                  const RunnerOptions& options);

}  // namespace nibble::engine
