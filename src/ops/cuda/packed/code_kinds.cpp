#include "ops/cuda/packed/code_kinds.h"

#include <algorithm>

#include "core/error.h"

namespace nibble::ops::cuda {
namespace {

constexpr int kWholeBook = 4;  // bits; its name goes without them

CodeKind kind_with(int bits, bool book, GroupOffset offset) {
  const auto* at = std::find_if(kCodeKinds.begin(), kCodeKinds.end(), [&](CodeKind kind) {
    return kind != CodeKind::kBytes && bits_of(kind) == bits && is_book(kind) == book &&
           offset_of(kind) == offset;
  });
  core::require(at != kCodeKinds.end(), core::ErrorKind::kFailed,
                "units have no {} of {} bits with such offsets", book ? "books" : "integers", bits);
  return *at;
}

const char* ending_of(GroupOffset offset) {
  switch (offset) {
    case GroupOffset::kZero:
      return "_with_zeros";
    case GroupOffset::kShift:
      return "_with_shifts";
    default:
      return "";
  }
}

}  // namespace

CodeKind integer_kind(int bits, GroupOffset offset) {
  return kind_with(bits, false, offset);
}

CodeKind book_kind(int bits) {
  return kind_with(bits, true, GroupOffset::kNone);
}

std::string name_of(CodeKind kind) {
  if (kind == CodeKind::kBytes) {
    return "bytes";
  }
  const int bits = bits_of(kind);
  if (is_book(kind)) {
    return bits == kWholeBook ? "book" : fmt::format("book{}", bits);
  }
  return fmt::format("int{}{}", bits, ending_of(offset_of(kind)));
}

}  // namespace nibble::ops::cuda
