#pragma once

#include <array>
#include <string>

#include "ops/cuda/packed/unit_format.h"

/// Kinds of codes by what unit_format.h says of each: bits, book and offset.
namespace nibble::ops::cuda {

/// Every kind.
inline constexpr std::array kCodeKinds = {
    CodeKind::kInt4,           CodeKind::kInt4WithZeros, CodeKind::kInt8,  CodeKind::kInt8WithZeros,
    CodeKind::kBook,           CodeKind::kBytes,         CodeKind::kInt3,  CodeKind::kInt3WithZeros,
    CodeKind::kInt2,           CodeKind::kInt2WithZeros, CodeKind::kBook3, CodeKind::kBook2,
    CodeKind::kInt4WithShifts, CodeKind::kInt8WithShifts};

/// Integers of so many bits, whose groups have such an offset. Throws kFailed where there are none.
CodeKind integer_kind(int bits, GroupOffset offset);
/// Entries of books, likewise.
CodeKind book_kind(int bits);

/// "int4", "int8_with_zeros", "int4_with_shifts", "book", "book3", "bytes": files have these words.
std::string name_of(CodeKind kind);

}  // namespace nibble::ops::cuda
