#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nibble/nibble.h>

#include "eval/perplexity.h"
#include "models/model.h"

namespace nibble::capi {

nibble_evaluate_options default_evaluate_options();

/// How perplexity is measured with a model. Throws kUsage for what is out of range.
eval::PerplexityOptions perplexity_of(const nibble_evaluate_options& options,
                                      const models::Model& model);

/// The tokens of a text that is measured. Throws kUsage for null and for what is not UTF-8.
std::vector<std::int32_t> measured_tokens(const models::Model& model, const char* text,
                                          std::size_t bytes);

}  // namespace nibble::capi
