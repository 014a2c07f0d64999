#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/ranked_token.h"

namespace nibble::ops::cuda {

/// host[i] = ranked[i], i < count. `host` is pinned. A kernel writes over the bus: what the stream
/// does next begins sooner behind it than behind a copy.
void send_tokens(const RankedToken* ranked, std::int64_t count, RankedToken* host,
                 cudaStream_t stream);

}  // namespace nibble::ops::cuda
