#include "io/gguf_parser.h"

#include <algorithm>
#include <set>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "io/byte_cursor.h"
#include "io/gguf_types.h"

namespace nibble::io {
namespace {

using core::printable;

constexpr std::uint32_t kMaxDimensions = 4;
constexpr std::size_t kMaxKeyBytes = 65535;
constexpr std::size_t kMaxTensorNameBytes = 64;
constexpr std::int64_t kDefaultAlignment = 32;
constexpr std::int64_t kMaxAlignment = 1 << 20;
constexpr std::string_view kAlignmentKey = "general.alignment";

// The least bytes that one key with its value, and one tensor, can take.
constexpr std::int64_t kLeastKeyBytes = 8 + 1 + 4 + 1;
constexpr std::int64_t kLeastTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

// Calls visit(std::type_identity<T>) for the C++ type of a single value's type in the file.
template <std::size_t kNumber = 0, typename Visit>
GgufValue with_type(std::uint32_t type, const ByteCursor& cursor, Visit visit) {
  if constexpr (kNumber == std::tuple_size_v<GgufTypes>) {
    cursor.require(type != gguf_type<GgufArray>(), "arrays of arrays are not supported");
    cursor.require(false, "there is no value type {}", type);
    return GgufValue(false);  // not reached
  } else {
    using T = std::tuple_element_t<kNumber, GgufTypes>;
    if constexpr (!std::is_same_v<T, GgufArray>) {
      if (type == kNumber) {
        return visit(std::type_identity<T>());
      }
    }
    return with_type<kNumber + 1>(type, cursor, visit);
  }
}

template <typename T>
T read_value(ByteCursor& cursor) {
  if constexpr (std::is_same_v<T, std::string>) {
    return std::string(cursor.read_string());
  } else if constexpr (std::is_same_v<T, bool>) {
    const auto byte = cursor.read<std::uint8_t>();
    cursor.require(byte <= 1, "a bool must be 0 or 1, it is {}", byte);
    return byte == 1;
  } else {
    return cursor.read<T>();
  }
}

template <typename T>
std::vector<T> read_array(ByteCursor& cursor, std::uint64_t declared) {
  constexpr std::int64_t kLeastBytes = std::is_same_v<T, std::string> ? 8 : sizeof(T);
  const std::int64_t count = cursor.checked_count(declared, kLeastBytes, "array elements");
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(read_value<T>(cursor));
  }
  return values;
}

GgufValue read_metadata_value(ByteCursor& cursor) {
  const auto type = cursor.read<std::uint32_t>();
  if (type != gguf_type<GgufArray>()) {
    return with_type(type, cursor, [&]<typename T>(std::type_identity<T>) {
      return GgufValue(read_value<T>(cursor));
    });
  }
  const auto element_type = cursor.read<std::uint32_t>();
  const auto count = cursor.read<std::uint64_t>();
  return with_type(element_type, cursor, [&]<typename T>(std::type_identity<T>) {
    return GgufValue(read_array<T>(cursor, count));
  });
}

// In the file's bytes.
std::string_view read_name(ByteCursor& cursor, std::size_t max_bytes) {
  const std::string_view name = cursor.read_string();
  cursor.require(!name.empty(), "the name is empty");
  cursor.require(name.size() <= max_bytes, "a name of {} bytes is longer than {}", name.size(),
                 max_bytes);
  const bool plain = std::none_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  cursor.require(plain, "the name '{}' holds control characters", printable(name));
  return name;
}

std::uint32_t read_version(ByteCursor& cursor) {
  cursor.set_place("magic");
  char magic[4];
  for (char& c : magic) {
    c = cursor.read<char>();
  }
  const std::string_view text(magic, sizeof(magic));
  cursor.require(text == "GGUF", "expected 'GGUF', found '{}' (is this a GGUF file?)",
                 printable(text));
  cursor.set_place("version");
  const auto version = cursor.read<std::uint32_t>();
  cursor.require(version == 0 || (version & 0xffff) != 0,
                 "this is a big-endian GGUF file, only little-endian is supported");
  cursor.require(version != 1, "GGUF version 1 is not supported; convert the model again");
  cursor.require(version == 2 || version == 3, "GGUF version {} is unknown, 2 and 3 are supported",
                 version);
  return version;
}

GgufMetadata read_metadata(ByteCursor& cursor, std::int64_t count, std::string_view what) {
  GgufMetadata metadata{std::string(what)};
  for (std::int64_t i = 0; i < count; ++i) {
    cursor.set_place("key", i);
    const std::string_view key = read_name(cursor, kMaxKeyBytes);
    cursor.set_place("value of", key);
    GgufValue value = read_metadata_value(cursor);
    cursor.require(metadata.insert(std::string(key), std::move(value)), "the key stands twice");
  }
  return metadata;
}

std::int64_t read_alignment(const GgufMetadata& metadata, std::string_view what) {
  const GgufValue* value = metadata.find(kAlignmentKey);
  if (value == nullptr) {
    return kDefaultAlignment;
  }
  const auto* stored = std::get_if<std::uint32_t>(&value->storage());
  core::require(stored != nullptr, core::ErrorKind::kInvalidModel, "{}: '{}' must be u32, it is {}",
                what, kAlignmentKey, core::lazily([&] { return value->type_name(); }));
  core::require(std::has_single_bit(*stored) && *stored <= kMaxAlignment,
                core::ErrorKind::kInvalidModel,
                "{}: '{}' is {}, must be a power of two of at most {}", what, kAlignmentKey,
                *stored, kMaxAlignment);
  return *stored;
}

// Elements of all rows; the file's first extent is the row.
core::Shape read_shape(ByteCursor& cursor) {
  const auto dimensions = cursor.read<std::uint32_t>();
  cursor.require(dimensions >= 1 && dimensions <= kMaxDimensions,
                 "the number of dimensions is {}, must be 1 to {}", dimensions, kMaxDimensions);
  core::Shape shape;
  std::int64_t elements = 1;
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    const auto extent = cursor.read<std::int64_t>();
    cursor.require(extent >= 1, "dimension {} is {}, must be 1 or more", i, extent);
    cursor.require(!__builtin_mul_overflow(elements, extent, &elements),
                   "the product of the dimensions is too large");
    shape.push_back(extent);
  }
  std::reverse(shape.begin(), shape.end());
  return shape;
}

GgufTensor read_tensor(ByteCursor& cursor, std::int64_t index) {
  cursor.set_place("tensor", index);
  GgufTensor tensor = {};
  const std::string_view name = read_name(cursor, kMaxTensorNameBytes);
  tensor.name = name;
  cursor.set_place("tensor", name);
  tensor.shape = read_shape(cursor);
  const auto type = cursor.read<std::uint32_t>();
  tensor.type = gguf_blocks::find_block_type(type);
  cursor.require(tensor.type != nullptr, "there is no tensor type {}", type);
  const std::int64_t row = tensor.shape.back();
  cursor.require(row % tensor.type->block_elements == 0,
                 "rows of {} elements are no multiple of the {} in a block of {}", row,
                 tensor.type->block_elements, tensor.type->name);
  std::int64_t blocks = 1;
  for (const std::int64_t extent : tensor.shape) {
    blocks *= extent;  // cannot overflow: read_shape
  }
  blocks /= tensor.type->block_elements;
  cursor.require(!__builtin_mul_overflow(blocks, tensor.type->block_bytes, &tensor.bytes),
                 "its size in bytes is too large");
  tensor.offset = cursor.read<std::int64_t>();
  return tensor;
}

// Tensors follow one another, each at the next multiple of the alignment, within the file. Offsets
// become file offsets.
void place_tensors(std::vector<GgufTensor>& tensors, std::int64_t data_begin,
                   std::int64_t file_bytes, std::int64_t alignment, std::string_view what) {
  std::int64_t expected = 0;  // of the data
  for (GgufTensor& tensor : tensors) {
    core::require(tensor.offset == expected, core::ErrorKind::kInvalidModel,
                  "{}: the offset of tensor '{}' is {}, expected {}", what, printable(tensor.name),
                  tensor.offset, expected);
    const std::int64_t left = file_bytes - data_begin - expected;
    core::require(
        tensor.bytes <= left, core::ErrorKind::kInvalidModel,
        "{}: tensor '{}' needs {} bytes at byte {}, the file has {} there (is it cut off?)", what,
        printable(tensor.name), tensor.bytes, data_begin + expected,
        std::max<std::int64_t>(left, 0));
    tensor.offset = data_begin + expected;
    expected += (tensor.bytes + alignment - 1) / alignment * alignment;  // bytes <= the file's size
  }
}

}  // namespace

GgufContents parse_gguf(std::span<const std::byte> file, std::string_view what) {
  ByteCursor cursor(file, what);
  const std::uint32_t version = read_version(cursor);
  cursor.set_place("number of tensors");
  const auto declared_tensors = cursor.read<std::uint64_t>();
  cursor.set_place("number of keys");
  const auto declared_keys = cursor.read<std::uint64_t>();
  const std::int64_t keys = cursor.checked_count(declared_keys, kLeastKeyBytes, "keys");
  GgufMetadata metadata = read_metadata(cursor, keys, what);
  const std::int64_t alignment = read_alignment(metadata, what);

  cursor.set_place("list of tensors");
  const std::int64_t count = cursor.checked_count(declared_tensors, kLeastTensorBytes, "tensors");
  std::vector<GgufTensor> tensors;
  std::set<std::string_view> seen;
  tensors.reserve(static_cast<std::size_t>(count));  // names must not move: `seen` views them
  for (std::int64_t i = 0; i < count; ++i) {
    tensors.push_back(read_tensor(cursor, i));
    cursor.require(seen.insert(tensors.back().name).second, "the name stands twice");
  }
  const std::int64_t data_begin = (cursor.position() + alignment - 1) / alignment * alignment;
  place_tensors(tensors, data_begin, static_cast<std::int64_t>(file.size()), alignment, what);
  return {version, alignment, std::move(metadata), std::move(tensors)};
}

}  // namespace nibble::io
