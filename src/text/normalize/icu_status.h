#pragma once

#include <new>
#include <string_view>

#include <unicode/utypes.h>

#include "core/error.h"

namespace nibble::text {

/// Throws unless ICU did what it was asked: std::bad_alloc when it had no memory, else kFailed with
/// what failed ("Unicode normalization failed").
inline void require_icu(UErrorCode status, std::string_view what) {
  if (status == U_MEMORY_ALLOCATION_ERROR) {
    throw std::bad_alloc();
  }
  core::require(U_SUCCESS(status), core::ErrorKind::kFailed, "tokenizer: {}: {}", what,
                u_errorName(status));
}

}  // namespace nibble::text
