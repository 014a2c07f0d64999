#pragma once

#include <string_view>

namespace nibble::ops {

/// How keys and values are stored. Integers are asymmetric, with a range for each vector (one head
/// of one token): x = smallest + step * code, as in KIVI (arXiv 2402.02750) by tokens and in Atom
/// (arXiv 2310.19102, section 4.3). kFp8 is core::E4m3 without a scale, which is for both keys and
/// values or for neither.
enum class KvType { kF32, kF16, kInt8, kInt4, kFp8 };

constexpr bool has_range(KvType type) {
  return type == KvType::kInt8 || type == KvType::kInt4;
}

/// How keys are stored and how values are. Keys bear rounding worse: their errors pass through an
/// exponential.
struct KvTypes {
  KvType keys = KvType::kF16;
  KvType values = KvType::kF16;
  KvTypes() = default;
  constexpr KvTypes(KvType both) : keys(both), values(both) {}
  constexpr KvTypes(KvType k, KvType v) : keys(k), values(v) {}
  /// Whether there is a cache of these types.
  constexpr bool go_together() const { return (keys == KvType::kFp8) == (values == KvType::kFp8); }
  friend bool operator==(const KvTypes&, const KvTypes&) = default;
};

/// "f32", "f16", "fp8", "int8" or "int4" for both, or keys and values as in "int8-int4"; throws
/// kUsage for anything else.
KvTypes parse_kv_types(std::string_view text);

}  // namespace nibble::ops
