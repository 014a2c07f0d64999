#include "text/load/protobuf.h"

#include "core/error.h"

namespace nibble::text {

void ProtobufReader::fail(std::string_view problem) const {
  core::fail(core::ErrorKind::kInvalidModel,
             "{}: {} at byte {} of a message of {} bytes: the file is damaged or not a protobuf",
             what_, problem, size_ - rest_.size(), size_);
}

std::uint64_t ProtobufReader::varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) {
      fail("a number is cut off");
    }
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    if (shift == 63 && byte > 1) {
      break;
    }
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      return value;
    }
  }
  fail("a number has more than 64 bits");
}

std::string_view ProtobufReader::take(std::uint64_t bytes) {
  if (bytes > rest_.size()) {
    fail("a field is longer than what is left");
  }
  const std::string_view taken = rest_.substr(0, static_cast<std::size_t>(bytes));
  rest_.remove_prefix(taken.size());
  return taken;
}

std::optional<ProtobufField> ProtobufReader::next() {
  if (rest_.empty()) {
    return std::nullopt;
  }
  const std::uint64_t tag = varint();
  ProtobufField field;
  field.wire_type = static_cast<std::uint32_t>(tag & 7);
  const std::uint64_t number = tag >> 3;
  if (number == 0 || number > 0x1fffffff) {
    fail("a field has an impossible number");
  }
  field.number = static_cast<std::uint32_t>(number);
  const auto fixed = [&](std::uint64_t bytes) {
    const std::string_view taken = take(bytes);
    for (std::size_t i = 0; i < taken.size(); ++i) {
      field.number_value |= static_cast<std::uint64_t>(static_cast<unsigned char>(taken[i]))
                            << (8 * i);
    }
  };
  switch (field.wire_type) {
    case 0:
      field.number_value = varint();
      break;
    case 1:
      fixed(8);
      break;
    case 2:
      field.bytes = take(varint());
      break;
    case 5:
      fixed(4);
      break;
    default:
      fail("a field has an unknown type");
  }
  return field;
}

}  // namespace nibble::text
