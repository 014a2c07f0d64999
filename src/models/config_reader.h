#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_type.h"
#include "models/architecture.h"

namespace nibble::models {

/// Reads config.json of a Hugging Face folder with limits on every value, so that nothing absurd
/// reaches an allocation. Every failure is kInvalidModel and names the field.
class ConfigReader {
 public:
  explicit ConfigReader(const core::Json& config) : config_(config) {}

  /// A size in [1, max].
  std::int64_t size(std::string_view key, std::int64_t max) const;
  std::int64_t size_or(std::string_view key, std::int64_t fallback, std::int64_t max) const;
  std::optional<std::int64_t> optional_size(std::string_view key, std::int64_t max) const;
  float positive(std::string_view key, double fallback) const;
  bool flag(std::string_view key, bool fallback) const;
  std::string text(std::string_view key, std::string_view fallback) const;
  ops::MlpActivation activation(std::string_view key, std::string_view fallback) const;

  /// Fails unless the field is missing, null, or equal to `value`: for features that are not built.
  void only(std::string_view key, const core::Json& value) const;

  /// One token id or a list of them; ids must be below `vocabulary`.
  std::vector<std::int32_t> token_ids(std::string_view key, std::int64_t vocabulary) const;

  const core::Json& json() const { return config_; }

 private:
  const core::Json& config_;
};

/// `config` with the fields of `defaults` that it does not have.
core::Json with_defaults(const core::Json& config, core::Json defaults);

inline constexpr std::int64_t kMaxLayers = 1024;
inline constexpr std::int64_t kMaxWidth = 1 << 18;  // hidden, ffn
inline constexpr std::int64_t kMaxHeads = 4096;
inline constexpr std::int64_t kMaxVocabulary = 1 << 23;
inline constexpr std::int64_t kMaxPositions = 1 << 26;

/// Checks sizes against one another (heads divide, head_dim even, ...).
void validate(const Architecture& architecture);

}  // namespace nibble::models
