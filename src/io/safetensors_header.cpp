#include "io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "core/json.h"

namespace nibble::io {
namespace {

using core::ErrorKind;
using core::Json;
using core::printable;
using core::require;

static_assert(std::endian::native == std::endian::little, "files are read without swapping bytes");

constexpr std::int64_t kLengthBytes = 8;
constexpr std::size_t kMaxRank = 8;
constexpr std::string_view kMetadataKey = "__metadata__";

struct StoredType {
  std::string_view name;
  std::int64_t bits;
};

// Every type of the reference (its `Dtype`), also those that no tensor of ours can hold.
constexpr std::array kStoredTypes = {
    StoredType{"BOOL", 8},        StoredType{"U8", 8},      StoredType{"I8", 8},
    StoredType{"I16", 16},        StoredType{"U16", 16},    StoredType{"F16", 16},
    StoredType{"BF16", 16},       StoredType{"I32", 32},    StoredType{"U32", 32},
    StoredType{"F32", 32},        StoredType{"I64", 64},    StoredType{"U64", 64},
    StoredType{"F64", 64},        StoredType{"C64", 64},    StoredType{"F8_E5M2", 8},
    StoredType{"F8_E4M3", 8},     StoredType{"F8_E8M0", 8}, StoredType{"F8_E5M2FNUZ", 8},
    StoredType{"F8_E4M3FNUZ", 8}, StoredType{"F6_E2M3", 6}, StoredType{"F6_E3M2", 6},
    StoredType{"F4", 4},
};

std::int64_t bits_of(const std::string& type, std::string_view what, std::string_view name) {
  const auto* at = std::find_if(kStoredTypes.begin(), kStoredTypes.end(),
                                [&](const StoredType& stored) { return stored.name == type; });
  require(at != kStoredTypes.end(), ErrorKind::kInvalidModel,
          "{}: tensor '{}' has the unknown dtype '{}'", what, printable(name), printable(type));
  return at->bits;
}

const Json& field(const Json& entry, const char* key, std::string_view what,
                  std::string_view name) {
  require(entry.is_object(), ErrorKind::kInvalidModel, "{}: entry '{}' must be an object", what,
          printable(name));
  const auto at = entry.find(key);
  require(at != entry.end(), ErrorKind::kInvalidModel, "{}: tensor '{}' has no '{}'", what,
          printable(name), key);
  return *at;
}

std::vector<std::int64_t> integers(const Json& array, const char* key, std::string_view what,
                                   std::string_view name) {
  require(array.is_array(), ErrorKind::kInvalidModel, "{}: '{}' of tensor '{}' must be an array",
          what, key, printable(name));
  require(array.size() <= kMaxRank, ErrorKind::kInvalidModel,
          "{}: '{}' of tensor '{}' holds {} numbers, at most {} are allowed", what, key,
          printable(name), array.size(), kMaxRank);
  std::vector<std::int64_t> values;
  values.reserve(array.size());
  for (const Json& value : array) {
    const bool fits = value.is_number_unsigned()
                          ? value.get<std::uint64_t>() <=
                                static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())
                          : value.is_number_integer() && value.get<std::int64_t>() >= 0;
    require(fits, ErrorKind::kInvalidModel, "{}: '{}' of tensor '{}' holds {}, which is not a size",
            what, key, printable(name), core::printable_json(value));
    values.push_back(value.get<std::int64_t>());
  }
  return values;
}

// Bytes that a tensor of this type and shape takes.
std::int64_t size_in_bytes(const SafetensorsEntry& entry, std::string_view what) {
  const std::int64_t bits = bits_of(entry.type, what, entry.name);
  std::int64_t total = bits;
  for (const std::int64_t extent : entry.shape) {
    require(!__builtin_mul_overflow(total, extent, &total), ErrorKind::kInvalidModel,
            "{}: shape {} of tensor '{}' is too large", what, core::printable(entry.shape),
            printable(entry.name));
  }
  require(total % 8 == 0, ErrorKind::kInvalidModel,
          "{}: tensor '{}' of dtype {} and shape {} does not fill whole bytes", what,
          printable(entry.name), entry.type, core::printable(entry.shape));
  return total / 8;
}

SafetensorsEntry read_entry(const std::string& name, const Json& json, std::string_view what) {
  SafetensorsEntry entry;
  entry.name = name;
  const Json& type = field(json, "dtype", what, name);
  require(type.is_string(), ErrorKind::kInvalidModel, "{}: 'dtype' of tensor '{}' must be a string",
          what, printable(name));
  entry.type = type.get<std::string>();
  entry.shape = integers(field(json, "shape", what, name), "shape", what, name);
  const auto range = integers(field(json, "data_offsets", what, name), "data_offsets", what, name);
  require(range.size() == 2 && range[0] <= range[1], ErrorKind::kInvalidModel,
          "{}: 'data_offsets' of tensor '{}' must be [begin, end], got {}", what, printable(name),
          core::printable(range));
  entry.offset = range[0];
  entry.bytes = range[1] - range[0];
  const std::int64_t expected = size_in_bytes(entry, what);
  require(entry.bytes == expected, ErrorKind::kInvalidModel,
          "{}: tensor '{}' of dtype {} and shape {} takes {} bytes, but its data_offsets hold {}",
          what, printable(name), entry.type, core::printable(entry.shape), expected, entry.bytes);
  return entry;
}

std::map<std::string, std::string> read_metadata(const Json& json, std::string_view what) {
  require(json.is_object(), ErrorKind::kInvalidModel, "{}: '__metadata__' must be an object", what);
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : json.items()) {
    require(value.is_string(), ErrorKind::kInvalidModel,
            "{}: '{}' in '__metadata__' must be a string", what, printable(key));
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

// The JSON text of the header.
std::string_view header_text(std::span<const std::byte> file, std::string_view what) {
  const auto file_bytes = static_cast<std::int64_t>(file.size());
  require(file_bytes >= kLengthBytes, ErrorKind::kInvalidModel,
          "{}: {} bytes are too few for a safetensors file", what, file_bytes);
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  require(length <= static_cast<std::uint64_t>(kMaxSafetensorsHeaderBytes),
          ErrorKind::kInvalidModel,
          "{}: the header length is {}, at most {} is allowed (is this a safetensors file?)", what,
          length, kMaxSafetensorsHeaderBytes);
  require(length <= static_cast<std::uint64_t>(file_bytes - kLengthBytes), ErrorKind::kInvalidModel,
          "{}: the header length is {}, but only {} bytes follow it (is the file cut off?)", what,
          length, file_bytes - kLengthBytes);
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes,
                              static_cast<std::size_t>(length));
  require(text.starts_with('{'), ErrorKind::kInvalidModel, "{}: the header must begin with '{{'",
          what);
  return text;
}

// No holes, no overlaps, nothing after the last tensor; offsets become file offsets.
void check_coverage(std::vector<SafetensorsEntry>& tensors, std::int64_t data_begin,
                    std::int64_t file_bytes, std::string_view what) {
  // Tensors without elements share the offset of the next one; they come first.
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  const std::int64_t data_bytes = file_bytes - data_begin;
  std::int64_t expected = 0;
  for (SafetensorsEntry& entry : tensors) {
    require(entry.offset == expected, ErrorKind::kInvalidModel,
            "{}: 'data_offsets' of tensor '{}' begin at {}, expected {} ({})", what,
            printable(entry.name), entry.offset, expected,
            entry.offset < expected ? "it overlaps another tensor" : "there is a hole");
    require(entry.bytes <= data_bytes - expected, ErrorKind::kInvalidModel,
            "{}: tensor '{}' ends at byte {} of the data, which has {} (is the file cut off?)",
            what, printable(entry.name), expected + entry.bytes, data_bytes);
    expected += entry.bytes;
    entry.offset += data_begin;
  }
  require(expected == data_bytes, ErrorKind::kInvalidModel,
          "{}: {} bytes of data belong to no tensor", what, data_bytes - expected);
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, std::string_view what) {
  const std::string_view text = header_text(file, what);
  const Json json = core::parse_json(text, what);
  SafetensorsHeader header;
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadataKey) {
      header.metadata = read_metadata(value, what);
    } else {
      header.tensors.push_back(read_entry(name, value, what));
    }
  }
  check_coverage(header.tensors, kLengthBytes + static_cast<std::int64_t>(text.size()),
                 static_cast<std::int64_t>(file.size()), what);
  return header;
}

std::optional<core::DType> find_dtype(std::string_view name) {
  using core::DType;
  for (const DType type : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI64,
                           DType::kI32, DType::kI16, DType::kI8, DType::kU8, DType::kBool}) {
    if (core::name_of(type) == name) {
      return type;
    }
  }
  return std::nullopt;
}

}  // namespace nibble::io
