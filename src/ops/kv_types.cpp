#include "ops/kv_types.h"

#include <optional>
#include <utility>

#include "core/error.h"

namespace nibble::ops {
namespace {

std::optional<KvType> type_of(std::string_view name) {
  constexpr std::pair<std::string_view, KvType> kTypes[] = {{"f32", KvType::kF32},
                                                            {"f16", KvType::kF16},
                                                            {"fp8", KvType::kFp8},
                                                            {"int8", KvType::kInt8},
                                                            {"int4", KvType::kInt4}};
  for (const auto& [known, type] : kTypes) {
    if (name == known) {
      return type;
    }
  }
  return std::nullopt;
}

}  // namespace

KvTypes parse_kv_types(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto keys = type_of(text.substr(0, dash));
  const auto values = dash == std::string_view::npos ? keys : type_of(text.substr(dash + 1));
  core::require(
      keys && values, core::ErrorKind::kUsage,
      "KV cache type '{}' is not known; use f16, f32, fp8, int8 or int4, or types of keys "
      "and values such as int8-int4",
      core::printable(text));
  const KvTypes types(*keys, *values);
  core::require(
      types.go_together(), core::ErrorKind::kUsage,
      "KV cache type '{}' is not built: fp8 goes with no other type; use fp8 for keys and "
      "values both, or types such as int8-int4",
      core::printable(text));
  return types;
}

}  // namespace nibble::ops
