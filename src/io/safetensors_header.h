#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/tensor.h"

namespace nibble::io {

/// One tensor of a safetensors file.
struct SafetensorsEntry {
  std::string name;
  std::string type;         // as the file says it: "F32", "F8_E4M3"
  core::Shape shape;        // row-major, [] for a single value
  std::int64_t offset = 0;  // of its bytes, from the start of the file
  std::int64_t bytes = 0;
};

/// What the header of a safetensors file says; everything in it has been checked against the file.
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;        // in the order of their bytes
  std::map<std::string, std::string> metadata;  // "__metadata__"
};

/// Reads the header of the file whose bytes are `file`; `what` names it in messages.
///
///   u64 n | n bytes of JSON, spaces at its end | data of all tensors, one after another
///   JSON: {"__metadata__": {"key": "text"}, "name": {"dtype": "F32", "shape": [2, 3],
///          "data_offsets": [begin, end]}, ...}        offsets count from the end of the JSON
///
/// Throws kInvalidModel unless the file keeps every promise of the format's reference
/// (github.com/huggingface/safetensors): n <= 100,000,000 and within the file; UTF-8 JSON that
/// begins with '{'; no key twice; known types; shape times type is the range; ranges follow one
/// another without holes or overlaps and end where the file ends.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, std::string_view what);

/// The type of that name if core::Tensor can hold it.
std::optional<core::DType> find_dtype(std::string_view name);

inline constexpr std::int64_t kMaxSafetensorsHeaderBytes = 100'000'000;

}  // namespace nibble::io
