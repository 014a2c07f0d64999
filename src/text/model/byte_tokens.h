#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/model/token_table.h"

namespace nibble::text {

/// The tokens "<0x00>" to "<0xFF>" that spell what a vocabulary has no token for ("byte fallback").
class ByteTokens {
 public:
  /// None.
  ByteTokens() { ids_.fill(-1); }
  /// Those that the table has.
  explicit ByteTokens(const TokenTable& tokens);

  bool complete() const;

  /// Appends the token of each byte; false, appending nothing, when one of them is missing.
  bool append(std::string_view bytes, std::vector<std::int32_t>& ids) const;

 private:
  std::array<std::int32_t, 256> ids_{};
};

/// The byte that "<0xHH>" stands for, -1 for any other string. `any_case` also takes hexadecimal
/// digits in lower case.
int byte_of_token(std::string_view token, bool any_case);

}  // namespace nibble::text
