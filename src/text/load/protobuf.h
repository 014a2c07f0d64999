#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace nibble::text {

/// One field of a protobuf message (protobuf.dev, "Encoding").
struct ProtobufField {
  std::uint32_t number = 0;
  std::uint32_t wire_type = 0;     // 0 varint, 1 eight bytes, 2 length-delimited, 5 four bytes
  std::uint64_t number_value = 0;  // of wire types 0, 1 and 5, little endian
  std::string_view bytes;          // of wire type 2
};

/// Reads the fields of a message one after another. Every length is checked against what is left;
/// groups (wire types 3 and 4, long deprecated) are refused. `what` names the file in messages.
class ProtobufReader {
 public:
  ProtobufReader(std::string_view message, std::string_view what)
      : rest_(message), what_(what), size_(message.size()) {}

  /// nullopt at the end of the message. Throws kInvalidModel for a message that is cut off or
  /// damaged.
  std::optional<ProtobufField> next();

 private:
  std::uint64_t varint();
  std::string_view take(std::uint64_t bytes);
  [[noreturn]] void fail(std::string_view problem) const;

  std::string_view rest_;
  std::string_view what_;
  std::size_t size_;
};

}  // namespace nibble::text
