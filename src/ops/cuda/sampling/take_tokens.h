#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/ranked_token.h"

namespace nibble::ops::cuda {

/// tokens[i] = the first token of row r where it is -1 - r: a step takes the tokens that the one
/// before it has chosen, without the host. tokens [m]; ranked [rows, count], as rank() leaves it,
/// all on the device. Token 0 takes the place of those of rows with NaN, and of rows that there are
/// not.
void take_tokens(std::int32_t* tokens, std::int64_t m, const RankedToken* ranked, std::int64_t rows,
                 std::int64_t count, cudaStream_t stream);

}  // namespace nibble::ops::cuda
