#pragma once

#include <string_view>

#include "compress/recipe/pass_options.h"
#include "formats/nv/nv_format.h"
#include "formats/scheme.h"

namespace nibble::compress {

/// The option "four_over_six" (true) of the passes that round: how scales of NVFP4 are fitted when
/// no pass has chosen them before.
formats::NvRule read_nv_rule(PassOptions& options);

/// Throws kUsage when "four_over_six": false is given to a scheme with codes that is not NVFP4.
void require_rule(const formats::Scheme& scheme, formats::NvRule rule, std::string_view pass);

}  // namespace nibble::compress
