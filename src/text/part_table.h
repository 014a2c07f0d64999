#pragma once

#include <span>
#include <string_view>

#include "core/error.h"
#include "core/json.h"

namespace nibble::text {

/// How the parts of one type are read from tokenizer.json: a row of a table of them.
template <class Part>
struct PartReader {
  std::string_view type;
  Part (*read)(const core::Json& json, std::string_view what);
};

/// Reads a part by the row of its type. Throws kInvalidModel where there is none, and says which
/// `kind` of part it is ("decoder").
template <class Part>
Part read_part(std::span<const PartReader<Part>> rows, std::string_view kind, std::string_view type,
               const core::Json& json, std::string_view what) {
  for (const PartReader<Part>& row : rows) {
    if (row.type == type) {
      return row.read(json, what);
    }
  }
  core::fail(core::ErrorKind::kInvalidModel, "{}: the {} '{}' is not supported", what, kind,
             core::printable(type));
}

}  // namespace nibble::text
