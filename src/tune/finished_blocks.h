#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace nibble::tune {

/// How far BQPO has come: for each block that is finished, the steps of the loss curve behind it.
/// The file appears complete or not at all. Throws kIo.
void write_finished_blocks(const std::filesystem::path& file, std::span<const std::int64_t> steps);

/// Reads it; nothing is finished where there is no such file. Throws kInvalidModel for a file that
/// is no list of at most `blocks` counts, none of them less than the one before.
std::vector<std::int64_t> read_finished_blocks(const std::filesystem::path& file,
                                               std::size_t blocks);

}  // namespace nibble::tune
