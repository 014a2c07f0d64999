#include "compress/search/searched_rounding.h"

#include <vector>

#include "compress/search/group_search.h"
#include "compress/search/searched_parameters.h"
#include "formats/gguf_types.h"

namespace nibble::compress {

formats::PackedWeight search_to_nearest(std::span<const float> w, std::int64_t n, std::int64_t k,
                                        const formats::Scheme& scheme, core::ThreadPool& pool) {
  const bool integers = formats::is_integer(scheme) &&
                        scheme.scale.type == formats::ScaleType::kF16 && scheme.scale.rows == 1;
  core::require(
      (integers || formats::block_type_of(scheme) != nullptr) && scheme.inputs == formats::Inputs(),
      core::ErrorKind::kUsage, "{} is not rounded with searched scales", scheme);
  const std::vector<float> alike(static_cast<std::size_t>(k), 1.0f);
  Parameters parameters = search_parameters(w, n, k, scheme, alike, kSearchSteps, pool);
  return pack(round_with(w, n, k, scheme, std::move(parameters), pool), n, k, scheme, pool);
}

}  // namespace nibble::compress
