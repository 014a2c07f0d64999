#include "text/grammar/pattern_reader.h"

#include "text/grammar/grammar.h"

namespace nibble::text {

bool PatternReader::take(std::string_view what) {
  if (!text_.substr(at_).starts_with(what)) {
    return false;
  }
  at_ += what.size();
  return true;
}

std::optional<PatternReader::Repeats> PatternReader::repeats() {
  if (take("*")) {
    return Repeats{0, -1};
  }
  if (take("+")) {
    return Repeats{1, -1};
  }
  return take("?") ? std::optional(Repeats{0, 1}) : std::nullopt;
}

std::optional<std::int64_t> PatternReader::number() {
  std::optional<std::int64_t> value;
  while (peek() >= '0' && peek() <= '9') {
    value = value.value_or(0) * 10 + (peek() - '0');
    if (*value > GrammarBuilder::kMaxRepeats) {
      fail("too many repetitions");
    }
    ++at_;
  }
  return value;
}

std::uint32_t PatternReader::hex_digit() {
  const char c = peek();
  const int value = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
  if (value < 0) {
    fail("expected a hexadecimal digit");
  }
  ++at_;
  return static_cast<std::uint32_t>(value);
}

std::uint32_t PatternReader::hex(int digits) {
  std::uint32_t value = 0;
  for (int i = 0; i < digits; ++i) {
    value = value * 16 + hex_digit();
  }
  return checked(value);
}

std::uint32_t PatternReader::checked(std::uint32_t point) const {
  if (point > kLastCodePoint || (point >= 0xd800 && point <= 0xdfff)) {
    fail("an escape that is no character");
  }
  return point;
}

}  // namespace nibble::text
