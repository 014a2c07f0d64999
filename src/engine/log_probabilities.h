#pragma once

#include <cstdint>
#include <span>

#include "engine/request.h"

namespace nibble::engine {

/// What a row of logits [vocabulary] says of `token` and of the `count` most probable tokens, in
/// double precision. Throws kFailed when the logits hold NaN.
TokenRecord record_of(std::span<const float> logits, std::int32_t token, std::int64_t count);

}  // namespace nibble::engine
