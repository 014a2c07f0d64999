#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/ranked_token.h"
#include "ops/token_draw.h"

namespace nibble::ops::cuda {

/// drawn[i] = the token that draws[i] takes of row i; id -1 where the row has none, as of NaN.
/// ranked [m, count], as rank() leaves it, and drawn [m] on the device; draws [m] there or in
/// pinned memory of the host. 1 <= count <= kMostDrawn; of a row that wants more or all tokens,
/// these are all that it gets.
void draw_tokens(const RankedToken* ranked, std::int64_t m, std::int64_t count,
                 const TokenDraw* draws, RankedToken* drawn, cudaStream_t stream);

}  // namespace nibble::ops::cuda
