#include "ops/cpu/attention/tiles/tiled_attention.h"

#include <algorithm>

#include "ops/cpu/architecture/architecture.h"
#include "ops/cpu/attention/seen_keys.h"
#include "ops/cpu/attention/widened_vectors.h"
#include "ops/cpu/packed/variants.h"
#include "ops/cpu/tiles/all_finite.h"
#include "ops/cpu/vector/scratch.h"
#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::cpu {
namespace {

const AttentionTiles* choose_attention_tiles() {
  const AttentionTiles* const tiles = architecture_attention_tiles();
  const Variant* const named = named_variant();
  const bool is_wanted = named != nullptr && named->has_tile_registers;
  return tiles != nullptr && is_wanted && tiles->runs_here() ? tiles : nullptr;
}

/// Digits of the keys and values that a problem's rows see, from position `begin` on.
struct TiledVectors {
  std::int64_t begin = 0;
  std::uint32_t* keys = nullptr;
  std::uint32_t* values = nullptr;
};

TiledVectors split_vectors(const AttentionTiles& tiles, const AttentionProblem& p) {
  thread_local Scratch floats;
  thread_local Scratch key_digits;
  thread_local Scratch value_digits;
  TiledVectors vectors;
  vectors.begin = first_key(p, p.first_position) / kBlockKeys * kBlockKeys;
  const std::int64_t end = key_count(p);
  const std::int64_t count = end - vectors.begin;
  vectors.keys = key_digits.values<std::uint32_t>(key_words(count, p.head_dim));
  vectors.values = value_digits.values<std::uint32_t>(value_words(count, p.head_dim));
  const FloatRows keys = widen_keys(p.keys, vectors.begin, end, p.head_dim, floats);
  tiles.split_keys({keys.data, keys.stride, count, p.head_dim, vectors.keys});
  const FloatRows values = widen_values(p.values, vectors.begin, end, p.head_dim, floats);
  tiles.split_values({values.data, values.stride, count, p.head_dim, vectors.values});
  return vectors;
}

/// Rows of a problem, counted through all heads of one position and then the next.
QueryGroup group_of(const AttentionProblem& p, std::int64_t begin, std::int64_t first_row,
                    std::int64_t rows) {
  QueryGroup group;
  group.rows = rows;
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t row = (first_row + i) / p.heads;
    const std::int64_t head = (first_row + i) % p.heads * p.head_dim;
    const std::int64_t position = p.first_position + row;
    group.q[i] = p.q + row * p.ldq + head;
    group.out[i] = p.out + row * p.ldo + head;
    group.from[i] = static_cast<std::int32_t>(first_key(p, position) - begin);
    group.to[i] = static_cast<std::int32_t>(end_of_keys(p, position) - begin);
  }
  return group;
}

/// Makes rows again that are not finite.
void repair(const AttentionProblem& p) {
  for (std::int64_t i = 0; i < p.rows; ++i) {
    for (std::int64_t h = 0; h < p.heads; ++h) {
      float* const out = p.out + i * p.ldo + h * p.head_dim;
      if (all_finite(out, p.head_dim)) {
        continue;
      }
      AttentionProblem row = p;
      row.q += i * p.ldq + h * p.head_dim;
      row.out = out;
      row.rows = 1;
      row.heads = 1;
      row.first_position += i;
      row.memory_rows = key_count(p);
      attend_rows(row);
    }
  }
}

}  // namespace

const AttentionTiles* active_attention_tiles() {
  static const AttentionTiles* const active = choose_attention_tiles();
  return active;
}

bool has_attention_of_prompts(KvTypes types) {
  return active_attention_tiles() != nullptr && has_attention_tiles(types.keys, types.values);
}

bool has_attention_tiles(KvType keys, KvType values) {
  return !has_range(keys) && !has_range(values);
}

void attend_in_tiles(const AttentionTiles& tiles, const AttentionProblem& p) {
  thread_local Scratch work;
  const TiledVectors vectors = split_vectors(tiles, p);
  QueryGroup groups[kBlockGroups];
  TiledQueries task;
  task.groups = groups;
  task.head_dim = p.head_dim;
  task.scale = p.scale;
  task.softcap = p.softcap;
  task.cap = vector_kernels().softcap;
  task.keys = vectors.keys;
  task.values = vectors.values;
  task.work = work.floats(work_floats(p.head_dim));
  const std::int64_t rows = p.rows * p.heads;
  for (std::int64_t row = 0; row < rows; row += kBlockGroups * kQueryLanes) {
    task.count = 0;
    for (std::int64_t r = row; r < std::min(rows, row + kBlockGroups * kQueryLanes);
         r += kQueryLanes) {
      groups[task.count++] = group_of(p, vectors.begin, r, std::min(kQueryLanes, rows - r));
    }
    tiles.attend(task);
  }
  repair(p);
}

}  // namespace nibble::ops::cpu
