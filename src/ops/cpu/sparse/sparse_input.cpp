#include "ops/cpu/sparse/sparse_input.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kLeastLanes = 11;
constexpr std::int64_t kGroupsPerTask = 32;
constexpr std::int64_t kPiecesBehind = 64;
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

/// Parts of one token: quads, scales and sums of its pieces.
void fill_pieces(const SparseInput& x, std::int64_t token, std::int64_t piece, std::int64_t group,
                 std::int64_t k, std::int64_t part, std::int32_t* words) {
  const std::int8_t* const codes = x.codes + token * x.code_stride;
  const float* const scales = x.scales + token * x.scale_stride;
  const std::int32_t* const sums = x.sums + token * x.scale_stride;
  const std::int64_t quads = piece / kSparseQuad;
  const std::int64_t pieces = k / piece;
  const std::int64_t of_group = group / piece;
  std::int32_t* const scales_of_pieces = words + quads * part;
  std::int32_t* const sums_of_pieces = scales_of_pieces + part;
  for (std::int64_t p = 0; p < pieces; ++p) {
    for (std::int64_t q = 0; q < quads; ++q) {
      std::memcpy(words + q * part + p, codes + p * piece + q * kSparseQuad, sizeof(*words));
    }
    std::memcpy(scales_of_pieces + p, scales + p / of_group, sizeof(*words));
    sums_of_pieces[p] = of_group == 1 ? sums[p]
                                      : std::accumulate(codes + p * piece, codes + (p + 1) * piece,
                                                        std::int32_t{0});
  }
}

}  // namespace

SparsePieces sparse_pieces(const SparseInput& x, std::int64_t piece, std::int64_t group,
                           std::int64_t k, Scratch& scratch, core::ThreadPool& pool) {
  constexpr std::int64_t kLine = 16;  // words
  const std::int64_t part = (k / piece + kPiecesBehind + kLine - 1) / kLine * kLine;
  const std::int64_t stride = (piece / kSparseQuad + 2) * part;
  auto* const words = reinterpret_cast<std::int32_t*>(scratch.floats(x.m * stride));
  pool.parallel_for(x.m, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      fill_pieces(x, token, piece, group, k, part, words + token * stride);
    }
  });
  return {words, part, stride};
}

std::int64_t rows_in_lanes(std::int64_t m) {
  const std::int64_t rest = m % kSparseLanes;
  return rest >= kLeastLanes ? m : m - rest;
}

SparseInput sparse_input(const QuantizedInput& input, std::int64_t first,
                         std::vector<std::int8_t>& copy) {
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
  copy.resize(static_cast<std::size_t>(x.m * tiled.groups * group));
  std::int8_t* to = copy.data();
  for (std::int64_t row = first; row < tiled.m; ++row) {
    for (std::int64_t g = 0; g < tiled.groups; ++g, to += group) {
      std::memcpy(to, input.codes(row) + g * input.group_stride(), static_cast<std::size_t>(group));
    }
  }
  x.codes = copy.data();
  x.code_stride = tiled.groups * group;
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
