#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "core/json_type.h"
#include "tune/adamw.h"
#include "tune/parameter.h"

namespace nibble::tune {

/// Writes what training goes on from to a file (safetensors): values and moments of all parameters,
/// the optimizer's steps, `more` of the caller's, and a hash of all that. It appears complete or
/// not at all. Throws kIo.
void save_training(const std::filesystem::path& file, const Parameters& parameters,
                   const AdamW& optimizer, const core::Json& more);

/// Reads it into parameters and optimizer, to the same bits. Returns the caller's `more`, an
/// object; nullopt, without a change, where there is no such file. Throws kIntegrity where it is of
/// other parameters, kInvalidModel where it is damaged or has taken more than `most_steps`; both
/// leave everything as it was.
std::optional<core::Json> load_training(const std::filesystem::path& file, std::int64_t most_steps,
                                        const Parameters& parameters, AdamW& optimizer);

}  // namespace nibble::tune
