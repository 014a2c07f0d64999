#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/ranked_token.h"
#include "ops/token_draw.h"

namespace nibble::ops::cuda {

/// drawn[i] = the token that draws[i] takes of row i, as draw_from_row() does, where it has a
/// temperature and no top_k; others stay as they are. first[i * count] is the first token of row i,
/// as rank() leaves it; where its id is -1, as of NaN, or its logit is
/// infinite, that is drawn. logits [m, columns] float32
/// and drawn [m] on the device; draws [m] there or in pinned memory of the host.
void draw_rows(const float* logits, std::int64_t m, std::int64_t columns, const RankedToken* first,
               std::int64_t count, const TokenDraw* draws, RankedToken* drawn, cudaStream_t stream);

}  // namespace nibble::ops::cuda
