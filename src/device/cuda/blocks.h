#pragma once

#include <algorithm>
#include <cstdint>

namespace nibble::device::cuda {

/// Blocks of a grid for `count` things, of which each block takes so many.
inline unsigned blocks_for(std::int64_t count, std::int64_t of_block) {
  return static_cast<unsigned>((count + of_block - 1) / of_block);
}

/// The same, at least one and at most `most`, where blocks go on until all is done.
inline unsigned blocks_for(std::int64_t count, std::int64_t of_block, std::int64_t most) {
  return static_cast<unsigned>(
      std::clamp<std::int64_t>((count + of_block - 1) / of_block, 1, most));
}

}  // namespace nibble::device::cuda
