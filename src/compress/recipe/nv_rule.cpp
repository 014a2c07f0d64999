#include "compress/recipe/nv_rule.h"

#include "core/error.h"

namespace nibble::compress {

using formats::NvRule;

NvRule read_nv_rule(PassOptions& options) {
  return options.flag("four_over_six", true) ? NvRule::kFourOverSix : NvRule::kPlain;
}

void require_rule(const formats::Scheme& scheme, NvRule rule, std::string_view pass) {
  core::require(rule == NvRule::kFourOverSix || scheme.scale.type == formats::ScaleType::kE4m3 ||
                    !formats::has_codes(scheme),
                core::ErrorKind::kUsage,
                "recipe: option 'four_over_six' of pass '{}' is for nvfp4, the scheme is {}", pass,
                scheme);
}

}  // namespace nibble::compress
