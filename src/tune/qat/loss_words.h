#pragma once

#include <string>
#include <string_view>

#include "tune/qat/distillation.h"

namespace nibble::tune {

/// "logits=1,hidden=1,attention=1,scores=0.1,labels=0.5": terms that are not named have the weight
/// 0. Throws kUsage for other words, a term that is named twice, and weights that are no numbers of
/// at least 0.
LossWeights parse_loss_weights(std::string_view text);

/// The same words of the terms that count.
std::string to_string(const LossWeights& weights);

}  // namespace nibble::tune
