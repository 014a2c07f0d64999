#include "cli/npy_file.h"

#include <bit>

#include <fmt/format.h>

#include "core/error.h"

namespace nibble::cli {

static_assert(std::endian::native == std::endian::little);

void NpyFile::write_header() {
  constexpr std::size_t kAlignment = 64;  // of the numbers behind the header
  constexpr std::size_t kPreamble = 10;   // magic, version, length of the text
  std::string text = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}",
                                 rows_, columns_);
  text.append(kAlignment - 1 - (kPreamble + text.size()) % kAlignment, ' ');
  text += '\n';
  std::string preamble("\x93NUMPY\x01\x00", 8);
  preamble += static_cast<char>(text.size() & 0xff);
  preamble += static_cast<char>(text.size() >> 8);
  file_.write(preamble + text);
}

void NpyFile::add_row(std::span<const float> row) {
  const auto width = static_cast<std::int64_t>(row.size());
  if (columns_ == 0) {
    columns_ = width;
    write_header();
  }
  core::require(width == columns_, core::ErrorKind::kFailed,
                "an embedding has {} numbers, the first has {}", width, columns_);
  file_.write(std::as_bytes(row));
}

}  // namespace nibble::cli
