#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nibble::text {

/// The best way to cut a text up to some place: the sum of the scores and the last piece.
struct PathNode {
  static constexpr std::size_t kUnreached = SIZE_MAX;

  double score = 0;
  std::size_t start = kUnreached;  // of the last piece
  std::int32_t id = -1;            // of the last piece
};

/// A piece of the best path.
struct PathPiece {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::int32_t id = -1;
};

struct ViterbiScratch {
  std::vector<PathNode> nodes;
  std::vector<PathPiece> path;
};

}  // namespace nibble::text
