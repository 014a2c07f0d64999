#include "ops/cpu/attention/tiles/tiled_attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/random_values_for_tests.h"
#include "ops/cpu/architecture/architecture.h"
#include "ops/cpu/attention/problem_for_tests.h"
#include "ops/cpu/attention/seen_keys.h"
#include "ops/cpu/attention/tiles/attention_tile_kernel.h"
#include "ops/cpu/attention/tiles/emulated_attention_for_tests.h"
#include "ops/cpu/attention/tiles/plain_attention_lanes.h"
#include "ops/cpu/tiles/emulated_tiles.h"

// The loops on emulated tiles, with plain vectors and with those of the CPU, and on the tiles of
// the CPU where it has them.
namespace nibble::ops::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

const AttentionTiles& emulated_attention() {
  static constexpr AttentionTiles kTiles = {
      .name = "emulated tiles",
      .runs_here = [] { return true; },
      .split_keys = split_keys<PlainAttentionLanes>,
      .split_values = split_values<PlainAttentionLanes>,
      .attend =
          [](const TiledQueries& task) {
            attend_groups<EmulatedTiles, PlainAttentionLanes>(task);
            ASSERT_FALSE(EmulatedTiles::is_configured()) << "the tile configuration leaks";
          },
  };
  return kTiles;
}

std::vector<const AttentionTiles*> tested_tiles() {
  std::vector<const AttentionTiles*> tested = {&emulated_attention()};
#if defined(__x86_64__)
  tested.push_back(&emulated_attention_avx512());
#endif
  if (architecture_attention_tiles() != nullptr) {
    tested.push_back(architecture_attention_tiles());
  }
  std::erase_if(tested, [](const AttentionTiles* tiles) { return !tiles->runs_here(); });
  return tested;
}

/// The fastest of them: what needs many products takes it.
const AttentionTiles& fast_tiles() {
  return *tested_tiles().back();
}

struct Case {
  std::int64_t rows, first, heads, dim, window = 0;
  bool bidirectional = false;
  float softcap = 0.0f;
  std::int64_t keys() const { return first + rows; }
};

std::string name_of(const Case& c) {
  return std::to_string(c.rows) + " rows from " + std::to_string(c.first) + ", " +
         std::to_string(c.heads) + " heads of " + std::to_string(c.dim) + ", window " +
         std::to_string(c.window) + (c.bidirectional ? ", both directions" : "") +
         (c.softcap > 0 ? ", capped" : "");
}

constexpr Case kCases[] = {{1, 0, 1, 8},
                           {1, 0, 1, 64},
                           {1, 37, 4, 64},
                           {5, 10, 4, 24},
                           {16, 0, 1, 32},
                           {17, 0, 1, 32},
                           {130, 0, 2, 64},
                           {70, 33, 4, 64},
                           {40, 60, 3, 80},
                           {33, 95, 1, 96},
                           {20, 120, 2, 128},
                           {9, 70, 2, 256},
                           {65, 0, 1, 20, 1},
                           {70, 33, 3, 64, 20},
                           {150, 200, 1, 64, 64},
                           {40, 300, 2, 32, 100},
                           {5, 0, 2, 24, 0, true},
                           {130, 0, 3, 32, 0, true},
                           {9, 300, 70, 16},
                           {70, 33, 3, 16, 20, false, 0.7f},
                           {40, 5, 2, 64, 0, false, 30.0f}};

constexpr KvType kTypes[] = {KvType::kF32, KvType::kF16, KvType::kFp8};

/// Keys and values of all positions, and the problem of the last rows.
struct Filled {
  Filled(const Case& c, KvType type, float size = 1.0f)
      : q(core::normal_values(c.rows * c.heads * c.dim, 1)), cache(type, 1, 1, c.dim, c.keys()) {
    std::for_each(q.begin(), q.end(), [&](float& x) { x *= size; });
    const std::vector<float> k = core::normal_values(c.keys() * c.dim, 2);
    const std::vector<float> v = core::normal_values(c.keys() * c.dim, 3);
    for (std::int64_t j = 0; j < c.keys(); ++j) {
      cache.store(0, 0, j, k.data() + j * c.dim, v.data() + j * c.dim);
    }
    p = testing::problem_of(c, q, cache);
  }
  Filled(const Filled&) = delete;

  template <typename Attend>
  std::vector<float> run(Attend attend) const {
    std::vector<float> out(q.size(), std::nanf(""));
    AttentionProblem problem = p;
    problem.out = out.data();
    attend(problem);
    return out;
  }
  std::vector<float> in_tiles(const AttentionTiles& tiles) const {
    return run([&](const AttentionProblem& problem) { attend_in_tiles(tiles, problem); });
  }

  std::vector<float> q;
  KvCache cache;
  AttentionProblem p;
};

double stored(const KvPages& pages, bool is_key, std::int64_t position, std::int64_t d) {
  return stored_element(pages.page(position / kPageTokens), is_key, position % kPageTokens, d);
}

/// The bound of attention_tiles.h for one head of one row.
double error_bound(const AttentionProblem& p, std::int64_t row, std::int64_t head) {
  constexpr double kRounding = 0x1p-24;
  const double rest = p.keys.type == KvType::kF32 ? 0x1p-17 : 0.0;
  const std::int64_t position = p.first_position + row;
  const std::int64_t begin = first_key(p, position);
  const std::int64_t end = end_of_keys(p, position);
  const float* const q = p.q + row * p.ldq + head * p.head_dim;
  double magnitude = 0;
  double largest = 0;
  for (std::int64_t j = begin; j < end; ++j) {
    double sum = 0;
    for (std::int64_t d = 0; d < p.head_dim; ++d) {
      sum += std::fabs(q[d] * stored(p.keys, true, j, d));
      largest = std::max(largest, std::fabs(stored(p.values, false, j, d)));
    }
    magnitude = std::max(magnitude, p.scale * sum);
  }
  const double sums = 24 + static_cast<double>(p.head_dim) / 8;
  const double score = (0x1p-17 + rest + sums * kRounding) * magnitude + 1e-6 * p.softcap;
  const double blocks = std::ceil(static_cast<double>(end - begin) / kBlockKeys) + 1;
  return (2 * score + 0x1p-17 + rest + (70 + 21 * blocks) * kRounding) * largest;
}

/// The largest error over its bound.
double worst_share(const AttentionTiles& tiles, const Filled& problem) {
  const std::vector<float> expected = problem.run(attend_reference);
  const std::vector<float> out = problem.in_tiles(tiles);
  const AttentionProblem& p = problem.p;
  double worst = 0;
  for (std::int64_t row = 0; row < p.rows; ++row) {
    for (std::int64_t head = 0; head < p.heads; ++head) {
      const double bound = error_bound(p, row, head);
      for (std::int64_t d = 0; d < p.head_dim; ++d) {
        const auto i = static_cast<std::size_t>((row * p.heads + head) * p.head_dim + d);
        const double error = std::fabs(static_cast<double>(out[i]) - expected[i]);
        if (!(error >= 0)) {
          return kInfinity;  // not written
        }
        worst = std::max(worst, error / bound);
      }
    }
  }
  return worst;
}

TEST(TiledAttention, StaysWithinItsBoundForEveryShape) {
  for (const AttentionTiles* const tiles : tested_tiles()) {
    double worst = 0;
    for (const Case& c : kCases) {
      for (const KvType type : kTypes) {
        const double share = worst_share(*tiles, Filled(c, type));
        ASSERT_LE(share, 1) << tiles->name << ": " << name_of(c);
        worst = std::max(worst, share);
      }
    }
    RecordProperty(tiles->name, std::to_string(worst));
  }
}

// Weights that are nearly all of one key, and maxima that move from block to block.
TEST(TiledAttention, StaysWithinItsBoundForLargeAndSmallScores) {
  for (const float size : {0.0f, 1e-3f, 10.0f, 100.0f}) {
    for (const KvType type : kTypes) {
      EXPECT_LE(worst_share(fast_tiles(), Filled({40, 300, 2, 64}, type, size)), 1) << size;
    }
  }
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(TiledAttention, AllTilesGiveTheSameBits) {
  for (const Case& c : kCases) {
    const Filled problem(c, KvType::kF16);
    const std::vector<float> expected = problem.in_tiles(emulated_attention());
    for (const AttentionTiles* const tiles : tested_tiles()) {
      EXPECT_TRUE(same_bits(problem.in_tiles(*tiles), expected))
          << tiles->name << ": " << name_of(c);
    }
  }
}

/// The root of the mean square of errors.
double error_of(const std::vector<float>& out, const std::vector<float>& expected) {
  double sum = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    sum +=
        (static_cast<double>(out[i]) - expected[i]) * (static_cast<double>(out[i]) - expected[i]);
  }
  return std::sqrt(sum / static_cast<double>(out.size()));
}

// Beside float32 vectors, and beside what rounding keys and values to float16 does.
TEST(TiledAttention, ErrsLittleBesideRoundingToFloat16) {
  for (const std::int64_t dim : {64, 128}) {
    const Case c{64, 448, 2, dim};
    const Filled whole(c, KvType::kF32);
    const Filled half(c, KvType::kF16);
    const std::vector<float> expected = half.run(attend_reference);
    const double rounding = error_of(expected, whole.run(attend_reference));
    const double error = error_of(half.in_tiles(fast_tiles()), expected);
    RecordProperty("of float32 " + std::to_string(dim),
                   std::to_string(error / error_of(half.run(attend_blocks), expected)));
    RecordProperty("of rounding " + std::to_string(dim), std::to_string(error / rounding));
    EXPECT_LE(error, 0.013 * rounding) << dim;
  }
}

// However the rows of a problem are cut, each has the bits that it has alone.
TEST(TiledAttention, RowsDoNotDependOnOneAnother) {
  for (const auto& [heads, window] : {std::pair{1, 0}, {4, 0}, {3, 50}, {5, 7}}) {
    const Case c{90, 75, heads, 48, window};
    const Filled problem(c, KvType::kF16);
    const std::vector<float> whole = problem.in_tiles(fast_tiles());
    for (const std::int64_t step : {1, 3, 16, 37, 64, 89}) {
      const std::vector<float> pieces = problem.run([&](const AttentionProblem& p) {
        for (std::int64_t i = 0; i < p.rows; i += step) {
          AttentionProblem piece = p;
          piece.q += i * p.ldq;
          piece.out += i * p.ldo;
          piece.first_position += i;
          piece.rows = std::min(step, p.rows - i);
          attend_in_tiles(fast_tiles(), piece);
        }
      });
      EXPECT_EQ(pieces, whole) << name_of(c) << ", pieces of " << step;
    }
  }
}

TEST(TiledAttention, SmallFaultsAreSeen) {
  const auto share_with = [](auto change) {
    AttentionTiles wrong = fast_tiles();
    change(wrong);
    return worst_share(wrong, Filled({20, 30, 2, 32}, KvType::kF16));
  };
  EXPECT_LE(share_with([](AttentionTiles&) {}), 1);
  const double hidden_key = share_with([](AttentionTiles& tiles) {
    tiles.attend = [](const TiledQueries& task) {
      QueryGroup groups[kBlockGroups];
      std::copy_n(task.groups, task.count, groups);
      --groups[0].to[5];
      TiledQueries shifted = task;
      shifted.groups = groups;
      fast_tiles().attend(shifted);
    };
  });
  EXPECT_GT(hidden_key, 1);
  const double wrong_scale = share_with([](AttentionTiles& tiles) {
    tiles.attend = [](const TiledQueries& task) {
      TiledQueries other = task;
      other.scale = 1.001f * task.scale;
      fast_tiles().attend(other);
    };
  });
  EXPECT_GT(wrong_scale, 1);
  const double lost_digits = share_with([](AttentionTiles& tiles) {
    tiles.split_values = [](const VectorsToSplit& task) {
      fast_tiles().split_values(task);
      std::fill_n(task.digits + kTileWords, kTileWords, 0u);  // the lower ones of a tile
    };
  });
  EXPECT_GT(lost_digits, 1);
}

TEST(TiledAttention, ExponentialsAreAsExactAsTheySay) {
  using Lanes = PlainAttentionLanes;
  double worst = 0;
  for (double x = 0; x > -87.2; x -= 1e-3) {
    const auto at = static_cast<float>(x);
    const double right = std::exp(static_cast<double>(at));
    worst = std::max(worst, std::fabs(exp_of<Lanes>(Lanes::all(at)).of[0] / right - 1));
  }
  EXPECT_LT(worst, 5e-7);
  EXPECT_EQ(exp_of<Lanes>(Lanes::all(0.0f)).of[0], 1.0f);
  EXPECT_EQ(exp_of<Lanes>(Lanes::all(-88.0f)).of[0], 0.0f);
  EXPECT_EQ(exp_of<Lanes>(Lanes::all(-kInfinity)).of[0], 0.0f);
  EXPECT_TRUE(std::isnan(exp_of<Lanes>(Lanes::all(std::nanf(""))).of[0]));
}

/// The same number, NaN, or nearly the same finite one.
bool is_like(float got, float right) {
  return std::isfinite(right) ? std::fabs(got - right) <= 1e-4f * std::max(1.0f, std::fabs(right))
                              : got == right || (std::isnan(got) && std::isnan(right));
}

// Queries, keys and values that are not finite, or that digits or sums of digits do not hold, give
// what they give by rows, and nothing to rows that do not see them.
TEST(TiledAttention, GivesWhatRowsGiveWhereNumbersAreNotFinite) {
  constexpr std::int64_t kDim = 40;
  constexpr std::int64_t kTokens = 90;
  constexpr std::int64_t kHeads = 2;
  const float largest = std::numeric_limits<float>::max();
  const float full_nan = std::bit_cast<float>(0x7fffffffu);  // rounds to -0
  struct Fault {
    const char* of;
    std::int64_t token;
    float value;
  };
  for (const Fault& fault : {Fault{"q", 20, kInfinity},
                             {"q", 21, std::nanf("")},
                             {"q", 22, full_nan},
                             {"q", 23, largest},
                             {"k", 40, std::nanf("")},
                             {"k", 41, kInfinity},
                             {"k", 42, full_nan},
                             {"k", 43, -largest},
                             {"v", 50, kInfinity},
                             {"v", 51, std::nanf("")},
                             {"v", 52, full_nan},
                             {"v", 53, largest}}) {
    for (const AttentionTiles* const tiles : tested_tiles()) {
      for (const KvType type : {KvType::kF32, KvType::kF16}) {
        const Case c{kTokens, 0, kHeads, kDim};
        Filled problem(c, type);
        std::vector<float> k = core::normal_values(kDim, 7);
        std::vector<float> v = core::normal_values(kDim, 8);
        if (*fault.of == 'q') {
          problem.q[static_cast<std::size_t>((fault.token * kHeads + 1) * kDim + 3)] = fault.value;
        } else {
          (*fault.of == 'k' ? k : v)[3] = fault.value;
          problem.cache.store(0, 0, fault.token, k.data(), v.data());
        }
        const std::vector<float> expected = problem.run(attend_rows);
        const std::vector<float> out = problem.in_tiles(*tiles);
        for (std::size_t i = 0; i < out.size(); ++i) {
          ASSERT_TRUE(is_like(out[i], expected[i]))
              << tiles->name << ": " << fault.of << ' ' << fault.token << ' ' << fault.value
              << ", element " << i << ": " << out[i] << ", not " << expected[i];
        }
      }
    }
  }
}

// The operator: prompts cut anywhere, dealt out to any number of threads, beside rows that are
// none.
TEST(TiledAttention, PromptsDoNotDependOnCutsOrThreads) {
  AttentionSpec spec;
  spec.heads = 6;
  spec.kv_heads = 2;
  spec.head_dim = 32;
  spec.inverse_frequency = {1.0f, 0.5f, 0.25f, 0.125f};
  constexpr std::int64_t kTokens = 210;
  constexpr std::int64_t kPrompt = 190;
  const std::int64_t width = (spec.heads + 2 * spec.kv_heads) * spec.head_dim;
  const auto buffers = std::make_shared<BufferPool>();
  const std::vector<float> values = core::normal_values(kTokens * width, 5);
  const auto run = [&](const std::vector<std::int64_t>& slices, int threads, KvType type,
                       const AttentionTiles* tiles) {
    core::ThreadPool pool(threads);
    KvCache cache(type, 1, spec.kv_heads, spec.head_dim, kTokens);
    std::vector<float> results;
    std::int64_t begin = 0;
    for (const std::int64_t rows : slices) {
      Matrix qkv(buffers, rows, width);
      std::copy_n(values.data() + begin * width, rows * width, qkv.data());
      std::vector<std::int32_t> positions(static_cast<std::size_t>(rows));
      std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(begin));
      ops::SequenceSlice<KvCache> slice{&cache, begin, 0, rows};
      slice.prompt_rows = std::clamp<std::int64_t>(kPrompt - begin, 0, rows);
      Matrix out(buffers, rows, spec.heads * spec.head_dim);
      attention(qkv, spec, 0, {{}, positions, {&slice, 1}}, out, pool, tiles);
      results.insert(results.end(), out.data(), out.data() + out.rows() * out.columns());
      begin += rows;
    }
    return results;
  };
  for (const std::int64_t window : {0, 70}) {
    spec.mask.window = window;
    for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kFp8, KvType::kInt8}) {
      const std::vector<float> whole = run({kTokens}, 1, type, &fast_tiles());
      EXPECT_EQ(run({kTokens}, 9, type, &fast_tiles()), whole);
      EXPECT_EQ(run({100, 1, 7, 64, 20, 18}, 2, type, &fast_tiles()), whole);
      std::vector<std::int64_t> decoded(kTokens - kPrompt + 1, 1);
      decoded.front() = kPrompt;
      EXPECT_EQ(run(decoded, 1, type, &fast_tiles()), whole);

      const std::vector<float> by_vectors = run({kTokens}, 1, type, nullptr);
      const auto prompt = static_cast<std::size_t>(kPrompt * spec.heads * spec.head_dim);
      EXPECT_EQ(std::equal(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(prompt),
                           by_vectors.begin()),
                type == KvType::kInt8);
      EXPECT_TRUE(std::equal(whole.begin() + static_cast<std::ptrdiff_t>(prompt), whole.end(),
                             by_vectors.begin() + static_cast<std::ptrdiff_t>(prompt)));
      EXPECT_LE(error_of(whole, by_vectors), 1e-5);
    }
  }
}

// Texts that are read in both directions, of which some rows are of a prompt.
TEST(TiledAttention, TakesTextsInBothDirections) {
  AttentionSpec spec;
  spec.heads = 4;
  spec.kv_heads = 4;
  spec.head_dim = 32;
  spec.mask.bidirectional = true;
  constexpr std::int64_t kTokens = 100;
  const std::int64_t width = 3 * spec.heads * spec.head_dim;
  const auto buffers = std::make_shared<BufferPool>();
  const std::vector<float> values = core::normal_values(kTokens * width, 5);
  const auto run = [&](std::int64_t prompt_rows) {
    core::ThreadPool pool(2);
    Matrix qkv(buffers, kTokens, width);
    std::copy(values.begin(), values.end(), qkv.data());
    std::vector<std::int32_t> positions(kTokens);
    ops::SequenceSlice<KvCache> slice{nullptr, 0, 0, kTokens};
    slice.prompt_rows = prompt_rows;
    Matrix out(buffers, kTokens, spec.heads * spec.head_dim);
    attention(qkv, spec, 0, {{}, positions, {&slice, 1}}, out, pool, &fast_tiles());
    return std::vector<float>(out.values().begin(), out.values().end());
  };
  const std::vector<float> by_vectors = run(0);
  EXPECT_NE(run(kTokens), by_vectors);
  EXPECT_LE(error_of(run(kTokens), by_vectors), 1e-5);
  EXPECT_LE(error_of(run(33), by_vectors), 1e-5);
}

}  // namespace
}  // namespace nibble::ops::cpu
