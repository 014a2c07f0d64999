#include "text/model/byte_tokens.h"

#include <algorithm>

#include <fmt/format.h>

namespace nibble::text {
namespace {

int hex_value(char c, bool any_case) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'A' && c <= 'F') {
    return c - 'A' + 10;
  }
  return any_case && c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

ByteTokens::ByteTokens(const TokenTable& tokens) {
  for (std::size_t byte = 0; byte < ids_.size(); ++byte) {
    ids_[byte] = tokens.id_of(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  }
}

bool ByteTokens::complete() const {
  return std::none_of(ids_.begin(), ids_.end(), [](std::int32_t id) { return id < 0; });
}

bool ByteTokens::append(std::string_view bytes, std::vector<std::int32_t>& ids) const {
  const std::size_t before = ids.size();
  for (const char byte : bytes) {
    const std::int32_t id = ids_[static_cast<unsigned char>(byte)];
    if (id < 0) {
      ids.resize(before);
      return false;
    }
    ids.push_back(id);
  }
  return true;
}

int byte_of_token(std::string_view token, bool any_case) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') {
    return -1;
  }
  const int high = hex_value(token[3], any_case);
  const int low = hex_value(token[4], any_case);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

}  // namespace nibble::text
