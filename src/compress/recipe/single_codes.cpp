#include "compress/recipe/single_codes.h"

#include "core/error.h"
#include "formats/runs.h"

namespace nibble::compress {

void require_single_codes(const formats::Scheme& scheme, std::string_view pass) {
  core::require(
      formats::runs_of(scheme) == nullptr, core::ErrorKind::kUsage,
      "recipe: pass '{}' chooses codes one by one, and {} of {} are chosen many together: "
      "take the pass 'trellis'",
      pass, scheme.code.type->name, scheme);
}

}  // namespace nibble::compress
