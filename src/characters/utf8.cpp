#include "characters/utf8.h"

#include <algorithm>

#include "core/error.h"

namespace nibble::characters {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

enum class Kind { kValid, kInvalid, kIncomplete };

struct Sequence {
  Kind kind = Kind::kValid;
  std::size_t bytes = 1;  // of the character, or of the maximal subpart that could have become one
};

unsigned char byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

// The allowed range of the second byte is what excludes overlong forms, surrogates and values
// above U+10FFFF (Unicode 15, table 3-7).
bool second_byte_fits(unsigned char lead, unsigned char second) {
  const unsigned char low = lead == 0xe0 ? 0xa0 : (lead == 0xf0 ? 0x90 : 0x80);
  const unsigned char high = lead == 0xed ? 0x9f : (lead == 0xf4 ? 0x8f : 0xbf);
  return second >= low && second <= high;
}

Sequence read_sequence(std::string_view text, std::size_t at) {
  const unsigned char lead = byte_at(text, at);
  if (lead < 0x80) {
    return {};
  }
  if (lead < 0xc2 || lead > 0xf4) {
    return {Kind::kInvalid, 1};
  }
  const std::size_t length = utf8_bytes(text[at]);
  for (std::size_t i = 1; i < length; ++i) {
    if (at + i == text.size()) {
      return {Kind::kIncomplete, i};
    }
    const unsigned char byte = byte_at(text, at + i);
    const bool fits = i == 1 ? second_byte_fits(lead, byte) : (byte & 0xc0) == 0x80;
    if (!fits) {
      return {Kind::kInvalid, i};
    }
  }
  return {Kind::kValid, length};
}

std::size_t ascii_run(std::string_view text, std::size_t at) {
  const std::size_t begin = at;
  while (at < text.size() && byte_at(text, at) < 0x80) {
    ++at;
  }
  return at - begin;
}

// Appends the repaired text; stops before an incomplete end and returns where.
std::size_t repair(std::string_view text, std::string& out) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t ascii = ascii_run(text, at);
    out.append(text.substr(at, ascii));
    at += ascii;
    if (at == text.size()) {
      break;
    }
    const Sequence sequence = read_sequence(text, at);
    if (sequence.kind == Kind::kIncomplete) {
      break;
    }
    out.append(sequence.kind == Kind::kValid ? text.substr(at, sequence.bytes) : kReplacement);
    at += sequence.bytes;
  }
  return at;
}

}  // namespace

CodePoint decode_utf8(std::string_view text, std::size_t at) {
  const auto bits = [&](std::size_t i) {
    return static_cast<char32_t>(byte_at(text, at + i)) & 0x3f;
  };
  const char32_t lead = byte_at(text, at);
  switch (utf8_bytes(text[at])) {
    case 1:
      return {lead, 1};
    case 2:
      return {(lead & 0x1f) << 6 | bits(1), 2};
    case 3:
      return {(lead & 0x0f) << 12 | bits(1) << 6 | bits(2), 3};
    default:
      return {(lead & 0x07) << 18 | bits(1) << 12 | bits(2) << 6 | bits(3), 4};
  }
}

CodePoint decode_utf8_before(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && (byte_at(text, at) & 0xc0) == 0x80) {
    --at;
  }
  return decode_utf8(text, at);
}

std::int64_t count_code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; });
}

std::size_t byte_of_code_point(std::string_view text, std::int64_t index) {
  std::size_t at = 0;
  for (std::int64_t i = 0; i < index && at < text.size(); ++i) {
    at += utf8_bytes(text[at]);
  }
  return at;
}

void append_utf8(std::string& out, char32_t value) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (value < 0x80) {
    put(value);
  } else if (value < 0x800) {
    put(0xc0 | value >> 6);
    put(0x80 | (value & 0x3f));
  } else if (value < 0x10000) {
    put(0xe0 | value >> 12);
    put(0x80 | (value >> 6 & 0x3f));
    put(0x80 | (value & 0x3f));
  } else {
    put(0xf0 | value >> 18);
    put(0x80 | (value >> 12 & 0x3f));
    put(0x80 | (value >> 6 & 0x3f));
    put(0x80 | (value & 0x3f));
  }
}

std::size_t valid_utf8_bytes(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    at += ascii_run(text, at);
    if (at == text.size()) {
      break;
    }
    const Sequence sequence = read_sequence(text, at);
    if (sequence.kind != Kind::kValid) {
      break;
    }
    at += sequence.bytes;
  }
  return at;
}

bool is_valid_utf8(std::string_view text) {
  return valid_utf8_bytes(text) == text.size();
}

void require_utf8(std::string_view text, std::string_view what) {
  const std::size_t at = valid_utf8_bytes(text);
  if (at == text.size()) {
    return;
  }
  const auto line =
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  core::fail(core::ErrorKind::kInvalidModel,
             "{} is not UTF-8: line {} has the byte 0x{:02x} at offset {}; convert it, for example "
             "with iconv",
             what, line, byte_at(text, at), at);
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  if (repair(text, out) < text.size()) {
    out.append(kReplacement);
  }
  return out;
}

void Utf8Repair::push(std::string_view bytes, std::string& out) {
  pending_.append(bytes);
  pending_.erase(0, repair(pending_, out));
}

void Utf8Repair::finish(std::string& out) {
  if (!pending_.empty()) {
    out.append(kReplacement);
    pending_.clear();
  }
}

}  // namespace nibble::characters
