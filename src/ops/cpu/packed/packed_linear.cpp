#include "ops/cpu/packed/packed_linear.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "ops/cpu/packed/outliers.h"
#include "ops/cpu/packed/zero_points.h"
#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::cpu {
namespace {

// Tiles that a worker takes at once. A decode step is bound by memory and wants long runs; with
// many tokens the tiles of a chunk should stay in the L2 cache while all tokens pass.
constexpr std::int64_t kChunksPerWorker = 8;
constexpr std::int64_t kManyTokens = 32;
constexpr std::int64_t kChunkBytes = 128 << 10;

std::int64_t tiles_per_chunk(std::int64_t tiles, std::int64_t tile_bytes, std::int64_t m,
                             int workers) {
  const std::int64_t fair = std::max<std::int64_t>(1, tiles / (kChunksPerWorker * workers));
  if (m < kManyTokens) {
    return fair;
  }
  // Kernels for many tokens take tiles in pairs.
  return (std::clamp<std::int64_t>(kChunkBytes / tile_bytes, 1, fair) + 1) / 2 * 2;
}

/// Whether something is added to the products before they are what x W^T is.
bool adds_to_products(const InputNeeds& needs) {
  return needs.wide || needs.tail != 0 || needs.activation.carries_zeros() ||
         needs.activation.keeps_outliers;
}

/// Tokens of the blocks that pass all tiles one after another. What is added behind the products
/// takes all tokens at once.
std::int64_t tokens_per_block(const Variant& variant, const QuantizedInput& input) {
  const TiledInput tiled = input.tiled();
  return adds_to_products(input.needs()) || variant.block_tokens == nullptr
             ? tiled.m
             : variant.block_tokens(tiled.m, tiled.row_stride);
}

/// Rows [begin, begin + count).
TiledInput rows_of(TiledInput input, std::int64_t begin, std::int64_t count) {
  input.m = std::min(count, input.m - begin);
  input.codes += begin * input.row_stride;
  input.scales += begin * input.groups;
  input.sums += begin * input.groups;
  return input;
}

/// The input as a layer that knows nothing of 16-bit codes asks for it.
InputNeeds needs_of_layer(const QuantizedInput& input) {
  InputNeeds needs = input.needs();
  needs.wide = false;
  return needs;
}

void check(std::span<const PackedLinear* const> parts, const QuantizedInput& input,
           std::int64_t ldy) {
  const InputNeeds needs = needs_of_layer(input);
  std::int64_t n = 0;
  for (const PackedLinear* part : parts) {
    core::require(part->k() == input.k() && part->needs() == needs, core::ErrorKind::kFailed,
                  "a layer of {} inputs in groups of {} ({}) cannot read an input of {} in groups "
                  "of {} ({})",
                  part->k(), part->group(), part->needs().activation, input.k(), input.group(),
                  input.needs().activation);
    n += part->n();
  }
  core::require(ldy >= n || input.m() <= 1, core::ErrorKind::kFailed,
                "{} outputs do not fit in rows of {}", n, ldy);
}

/// Products of tiles [begin, end) with all rows of the input, apart from the result.
struct Products {
  const float* values = nullptr;  // [rows of the input, columns]
  std::int64_t columns = 0;
};

Products multiply(const Variant& variant, const PackedLinear& linear, const TiledInput& input,
                  std::int64_t begin, std::int64_t end) {
  thread_local std::vector<float> products;
  const std::int64_t columns = std::min(linear.n(), end * kTileRows) - begin * kTileRows;
  products.resize(static_cast<std::size_t>(input.m * columns));
  linear.run(variant, input, begin, end, products.data(), columns);
  return {products.data(), columns};
}

/// y[rows of tiles begin .. end) += tail of the weight times tail of the input.
void add_tail(const Variant& variant, const PackedLinear& tail, const QuantizedInput& input,
              std::int64_t begin, std::int64_t end, float* y, std::int64_t ldy) {
  const Products products = multiply(variant, tail, input.tiled(), begin, end);
  const float* product = products.values;
  for (std::int64_t token = 0; token < input.m(); ++token) {
    float* row = y + token * ldy + begin * kTileRows;
    for (std::int64_t i = 0; i < products.columns; ++i) {
      row[i] += *product++;
    }
  }
}

/// The same tiles for codes of two digits: y = first row + second row of each token.
void run_wide(const Variant& variant, const PackedLinear& linear, const QuantizedInput& input,
              std::int64_t begin, std::int64_t end, float* y, std::int64_t ldy) {
  const Products products = multiply(variant, linear, input.tiled(), begin, end);
  for (std::int64_t token = 0; token < input.m(); ++token) {
    const float* high = products.values + 2 * token * products.columns;
    const float* low = high + products.columns;
    float* row = y + token * ldy + begin * kTileRows;
    for (std::int64_t i = 0; i < products.columns; ++i) {
      row[i] = high[i] + low[i];
    }
  }
}

/// y[all tokens, rows of tiles begin .. end) += bias.
void add_bias(const TiledWeight& weight, std::span<const float> bias, std::int64_t tokens,
              std::int64_t begin, std::int64_t end, float* y, std::int64_t ldy) {
  const std::int64_t first = begin * kTileRows;
  const std::int64_t last = std::min(weight.n, end * kTileRows);
  for (std::int64_t token = 0; token < tokens && !bias.empty(); ++token) {
    vector_kernels().add(y + token * ldy + first, bias.data() + first, last - first);
  }
}

/// All rows of an input before tiles [begin, end) of one part; y points at column 0 of it.
void run_with_sums(const Variant& variant, const PackedLinear& part, std::span<const float> bias,
                   const QuantizedInput& input, std::int64_t begin, std::int64_t end, float* y,
                   std::int64_t ldy) {
  const TiledWeight& tiled = part.tiled();
  if (input.needs().wide) {
    run_wide(variant, part, input, begin, end, y, ldy);
  } else {
    part.run(variant, input.tiled(), begin, end, y + begin * kTileRows, ldy);
  }
  if (input.needs().activation.carries_zeros()) {
    subtract_zero_points(tiled, part.weight_sums(), input, begin, end, y, ldy);
  }
  if (part.tail() != nullptr) {
    add_tail(variant, *part.tail(), *input.tail(), begin, end, y, ldy);
  }
  if (input.needs().activation.keeps_outliers) {
    add_outliers(tiled, input, begin, end, y, ldy);
  }
  add_bias(tiled, bias, input.m(), begin, end, y, ldy);
}

}  // namespace

void packed_linear(const Variant& variant, std::span<const PackedLinear* const> parts,
                   const QuantizedInput& input, float* y, std::int64_t ldy, core::ThreadPool& pool,
                   std::span<const std::span<const float>> biases) {
  check(parts, input, ldy);
  std::int64_t tiles = 0;
  std::int64_t bytes = 0;
  for (const PackedLinear* part : parts) {
    tiles += part->tiled().tile_count;
    bytes += part->tile_bytes();
  }
  if (tiles == 0 || input.m() == 0) {
    return;
  }
  const std::int64_t m = input.tiled().m;
  const std::int64_t block = tokens_per_block(variant, input);
  const bool adds = adds_to_products(input.needs());
  // Chunks count tiles over all parts, one after another; a chunk may span two parts.
  const auto run_tiles = [&](std::int64_t token, std::int64_t begin, std::int64_t end) {
    std::int64_t first = 0;
    std::int64_t column = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const PackedLinear& part = *parts[i];
      const std::span<const float> bias = biases.empty() ? std::span<const float>() : biases[i];
      const TiledWeight& tiled = part.tiled();
      const std::int64_t from = std::max(begin - first, std::int64_t{0});
      const std::int64_t to = std::min(end - first, tiled.tile_count);
      if (from < to && adds) {
        run_with_sums(variant, part, bias, input, from, to, y + column, ldy);
      } else if (from < to) {
        part.run(variant, rows_of(input.tiled(), token, block), from, to,
                 y + token * ldy + column + from * kTileRows, ldy,
                 bias.empty() ? nullptr : bias.data());
      }
      first += tiled.tile_count;
      column += tiled.n;
    }
  };
  const std::int64_t chunk =
      tiles_per_chunk(tiles, std::max<std::int64_t>(1, bytes / tiles), m, pool.size());
  const std::int64_t chunks = (tiles + chunk - 1) / chunk;
  if (block >= m) {
    pool.parallel_for(tiles, chunk,
                      [&](std::int64_t begin, std::int64_t end) { run_tiles(0, begin, end); });
    return;
  }
  const std::int64_t blocks = (m + block - 1) / block;
  pool.parallel_for(blocks * chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t tile = i % chunks * chunk;
      run_tiles(i / chunks * block, tile, std::min(tiles, tile + chunk));
    }
  });
}

void packed_linear(std::span<const PackedLinear* const> parts, const QuantizedInput& input,
                   float* y, std::int64_t ldy, core::ThreadPool& pool) {
  packed_linear(active_variant(), parts, input, y, ldy, pool);
}

std::int64_t packed_linear_chain(const PackedLinear& linear) {
  return linear.tiled().groups + (linear.tail() == nullptr ? 0 : linear.tail()->tiled().groups);
}

}  // namespace nibble::ops::cpu
