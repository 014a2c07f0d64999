#pragma once

#include <optional>
#include <string_view>

#include "formats/exchange/exchange.h"
#include "models/model.h"

namespace nibble::models {

/// The one scheme that the compressed layers of `model` get in checkpoints of `method`: `asked`, or
/// what comes nearest to most of their weights. Throws kUsage where the method has no such scheme,
/// or no layer says what to choose.
formats::Scheme target_scheme(const Model& model, std::string_view method,
                              const formats::exchange::Writer& writer,
                              const std::optional<formats::Scheme>& asked);

/// Throws kInvalidModel for models of which `method` has no checkpoints that its readers take:
/// encoders, mixtures of experts, and families with matrices [in, out].
void require_family(const Model& model, std::string_view method);

}  // namespace nibble::models
