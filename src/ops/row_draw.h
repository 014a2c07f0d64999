#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/token_draw.h"

namespace nibble::ops {

/// Memory of the draws below, to be used again.
struct RowWeights {
  std::vector<TokenWeight> before;  // the temperature
  std::vector<TokenWeight> behind;
};

/// The token that a draw takes of the first ones of a row, largest first, of which there are at
/// least top_k, or all; an id of -1 ends them. The first one where the temperature is 0, and where
/// it has no id. The reference of cuda/sampling/draw_tokens.h.
RankedToken draw_from_ranked(std::span<const RankedToken> ranked, const TokenDraw& draw,
                             RowWeights& weights);

/// weights[i] = weight_of(logits[i], first, temperature)
using WeighTokens = void (*)(const float* logits, std::int64_t n, float first, float temperature,
                             TokenWeight* weights);
void weigh_tokens(const float* logits, std::int64_t n, float first, float temperature,
                  TokenWeight* weights);

/// The token that a draw without top_k takes of a row, which is not sorted: a token is drawn among
/// all by what it weighs behind the temperature, and drawn again among those before it (of larger
/// logits, or equal ones and lower ids) where it is none of the fewest that reach top_p. The first
/// token is always one of them, so this ends. Draws without top_p take one turn. `logits` are
/// no NaN; of a row that has infinity, or -infinity alone, the first token is taken. `weigh` is
/// weigh_tokens(), or a faster one. The reference of cuda/sampling/draw_rows.h.
std::int32_t draw_from_row(std::span<const float> logits, const TokenDraw& draw,
                           RowWeights& weights, WeighTokens weigh = weigh_tokens);

}  // namespace nibble::ops
