#include "ops/plain_attention.h"

#include "core/error.h"

namespace nibble::ops {

std::string_view beyond_plain(const AttentionSpec& spec) {
  if (spec.softcap > 0.0f) {
    return "attention soft-capping";
  }
  return spec.scale > 0.0f ? "a scale of attention scores of its own" : "";
}

void require_plain(const AttentionSpec& spec) {
  const std::string_view missing = beyond_plain(spec);
  core::require(missing.empty(), core::ErrorKind::kUsage,
                "the model runs on the CPU only so far: {} is not built for GPUs; use --device cpu",
                missing);
}

}  // namespace nibble::ops
