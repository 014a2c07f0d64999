#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "capi/model_handle.h"
#include "engine/text_batches.h"

namespace nibble::capi {

nibble_read_options default_read_options();

/// `options` of a model as the caller wants them.
engine::InputOptions applied_to(engine::InputOptions options, const nibble_read_options& asked);

/// Turns texts, or pairs of them, into inputs as engine::for_each_batch() does, and checks before
/// each batch whether the call was cancelled. Returns how many were cut. Throws kUsage for ids.
std::int64_t read_batches(const nibble_model& model, const Call& call,
                          std::span<const nibble_input> texts, std::span<const nibble_input> pairs,
                          const engine::InputOptions& options, const engine::RunBatch& run);

}  // namespace nibble::capi
