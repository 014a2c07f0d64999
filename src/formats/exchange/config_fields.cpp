#include "formats/exchange/config_fields.h"

#include "core/error.h"
#include "core/json.h"

namespace nibble::formats::exchange {
namespace {

using core::ErrorKind;

constexpr std::int64_t kMaxGroup = std::int64_t{1} << 30;

}  // namespace

int read_bits(const core::Json& config, std::string_view key) {
  const auto bits = static_cast<int>(core::get_integer(config, key, kConfigName, 1, 64));
  core::require(bits == 2 || bits == 3 || bits == 4 || bits == 8, ErrorKind::kInvalidModel,
                "{}: {} bits can't be read, only 2, 3, 4 and 8", kConfigName, bits);
  return bits;
}

std::int64_t read_group(const core::Json& config, std::string_view key) {
  const std::int64_t group = core::get_integer(config, key, kConfigName, -1, kMaxGroup);
  core::require(group != 0, ErrorKind::kInvalidModel, "{}: '{}' is 0; -1 stands for whole rows",
                kConfigName, key);
  return group == -1 ? 0 : group;
}

}  // namespace nibble::formats::exchange
