#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nibble::compress {

/// What `nibble compare --json` says of one recipe.
struct MeasuredDamage {
  std::string text;                // that was read
  double original_perplexity = 0;  // of the model as it was
  double perplexity = 0;
  std::optional<double> kl_divergence;   // mean, nats
  std::optional<double> top1_agreement;  // share
};

/// The row of `recipe` in `json`. `what` names the text in messages. Throws kInvalidModel when it
/// is not such a table, kUsage naming the recipes that it has when this is none of them.
MeasuredDamage find_damage(std::string_view json, std::string_view what, std::string_view recipe);

}  // namespace nibble::compress
