#pragma once

#include <string_view>

#include "core/error.h"

namespace nibble::cli {

struct ExitCode {
  int code;
  std::string_view meaning;
};

/// What the program ends with, as help and manual say it.
inline constexpr ExitCode kExitCodes[] = {
    {0, "done"},
    {static_cast<int>(core::ErrorKind::kFailed), "failed"},
    {static_cast<int>(core::ErrorKind::kUsage), "wrong usage"},
    {static_cast<int>(core::ErrorKind::kInvalidModel), "invalid model"},
    {static_cast<int>(core::ErrorKind::kOutOfMemory), "out of memory"},
    {static_cast<int>(core::ErrorKind::kIo), "input/output"},
    {static_cast<int>(core::ErrorKind::kIntegrity), "integrity"},
    {static_cast<int>(core::ErrorKind::kBelowThreshold), "below the asked threshold"},
};

}  // namespace nibble::cli
