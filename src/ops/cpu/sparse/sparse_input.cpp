#include "ops/cpu/sparse/sparse_input.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kLeastRows = 32;   // for which lanes pay
constexpr std::int64_t kLeastLanes = 11;  // of the last vector
constexpr std::int64_t kGroupsPerTask = 32;
constexpr std::int64_t kCachedWords = 9 << 10;
constexpr std::uint32_t kUnsigned = 0x80808080;  // makes a + 128 of four codes

/// Group g of a block's tokens, `first` being the first row of codes.
void fill_group(const QuantizedInput& input, std::int64_t first, std::int64_t tokens,
                std::int64_t g, float* scales, std::uint32_t* codes) {
  const std::int64_t quads = input.group() / kSparseQuad;
  for (std::int64_t lane = 0; lane < kSparseLanes; ++lane) {
    const bool is_there = lane < tokens;
    const std::int64_t row = first + (is_there ? lane : 0);
    const std::int8_t* const from = input.codes(row) + g * input.group_stride();
    scales[lane] = is_there ? input.scales(row)[g] : 0.0f;
    for (std::int64_t q = 0; q < quads; ++q) {
      std::uint32_t quad = 0;
      std::memcpy(&quad, from + q * kSparseQuad, sizeof(quad));
      codes[q * kSparseLanes + lane] = quad ^ kUnsigned;
    }
  }
}

/// How inputs are cut for SparseWindows.
struct WindowShape {
  std::int64_t piece;
  std::int64_t of_group;  // pieces
  std::int64_t pieces;
  std::int64_t lines() const { return piece / kSparseQuad + 2; }
};

/// A block of tokens.
struct TokenBlock {
  std::int64_t first;
  std::int64_t tokens;
};

/// That of token `token` of m.
TokenBlock block_of(std::int64_t token, std::int64_t m, std::int64_t most) {
  TokenBlock block = {token / most * most, most};
  while (block.first + block.tokens <= token || block.first + block.tokens > m) {
    if (block.first + block.tokens <= m) {
      block.first += block.tokens;
    } else {
      block.tokens /= 2;
    }
  }
  return block;
}

/// `words`: those of the token in the first window, `stride` words from window to window.
void fill_windows(const SparseInput& x, std::int64_t token, const WindowShape& shape,
                  std::int64_t stride, std::int32_t* words) {
  const std::int8_t* codes = x.codes + token * x.code_stride;
  const float* const scales = x.scales + token * x.scale_stride;
  const std::int32_t* const sums = x.sums + token * x.scale_stride;
  const std::int64_t quads = shape.piece / kSparseQuad;
  for (std::int64_t p = 0; p < shape.pieces; ++p, codes += shape.piece) {
    std::int32_t* const to = words + p / kSparseWindow * stride + p % kSparseWindow;
    for (std::int64_t q = 0; q < quads; ++q) {
      std::memcpy(to + q * kSparseWindow, codes + q * kSparseQuad, sizeof(*to));
    }
    std::memcpy(to + quads * kSparseWindow, scales + p / shape.of_group, sizeof(*to));
    to[(quads + 1) * kSparseWindow] =
        shape.of_group == 1 ? sums[p] : std::accumulate(codes, codes + shape.piece, 0);
  }
}

}  // namespace

SparseWindows sparse_windows(const SparseInput& x, std::int64_t group, std::int64_t k, int tokens,
                             Scratch& scratch, core::ThreadPool& pool) {
  const std::int64_t piece = sparse_piece_of(static_cast<int>(group));
  const WindowShape shape = {piece, group / piece, k / piece};
  const std::int64_t windows = (shape.pieces + kSparseWindow - 1) / kSparseWindow;
  const std::int64_t of_token = shape.lines() * kSparseWindow;
  const std::int64_t stride = windows * of_token;
  while (tokens > 1 && tokens * stride > kCachedWords) {
    tokens /= 2;
  }
  auto* const words = scratch.values<std::int32_t>(x.m * stride);
  pool.parallel_for(x.m, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const TokenBlock block = block_of(token, x.m, tokens);
      fill_windows(x, token, shape, block.tokens * of_token,
                   words + block.first * stride + (token - block.first) * of_token);
    }
  });
  return {words, stride, tokens};
}

std::int64_t rows_in_lanes(std::int64_t m) {
  if (m < kLeastRows) {
    return 0;
  }
  const std::int64_t rest = m % kSparseLanes;
  return rest >= kLeastLanes ? m : m - rest;
}

SparseInput sparse_input(const QuantizedInput& input, std::int64_t first, Scratch& scratch) {
  const TiledInput tiled = input.tiled();
  SparseInput x;
  x.m = tiled.m - first;
  x.codes = tiled.codes + first * tiled.row_stride;
  x.code_stride = tiled.row_stride;
  x.scales = tiled.scales + first * tiled.groups;
  x.sums = tiled.sums + first * tiled.groups;
  x.scale_stride = tiled.groups;
  const std::int64_t group = input.group();
  if (input.group_stride() == group) {
    return x;
  }
  auto* to = scratch.values<std::int8_t>(x.m * tiled.groups * group);
  x.codes = to;
  x.code_stride = tiled.groups * group;
  for (std::int64_t row = first; row < tiled.m; ++row) {
    for (std::int64_t g = 0; g < tiled.groups; ++g, to += group) {
      std::memcpy(to, input.codes(row) + g * input.group_stride(), static_cast<std::size_t>(group));
    }
  }
  return x;
}

std::vector<SparseLanes> sparse_lanes(const QuantizedInput& input, std::int64_t count,
                                      Scratch& scratch, core::ThreadPool& pool) {
  const std::int64_t blocks = (count + kSparseLanes - 1) / kSparseLanes;
  const std::int64_t groups = input.groups();
  const std::int64_t scale_floats = groups * kSparseLanes;
  const std::int64_t quads = input.group() / kSparseQuad;
  const std::int64_t block_floats = scale_floats * (1 + quads);
  float* const memory = scratch.floats(blocks * block_floats);
  const auto codes_of = [&](std::int64_t block) {
    return reinterpret_cast<std::uint32_t*>(memory + block * block_floats + scale_floats);
  };
  std::vector<SparseLanes> lanes;
  for (std::int64_t block = 0; block < blocks; ++block) {
    lanes.push_back({reinterpret_cast<const std::uint8_t*>(codes_of(block)),
                     memory + block * block_floats,
                     std::min<std::int64_t>(kSparseLanes, count - block * kSparseLanes)});
  }
  pool.parallel_for(blocks * groups, kGroupsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t block = i / groups;
      const std::int64_t g = i % groups;
      fill_group(input, block * kSparseLanes, lanes[static_cast<std::size_t>(block)].tokens, g,
                 memory + block * block_floats + g * kSparseLanes,
                 codes_of(block) + g * quads * kSparseLanes);
    }
  });
  return lanes;
}

}  // namespace nibble::ops::cpu
