#include "ops/cpu/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/float8.h"
#include "core/random.h"
#include "core/random_values_for_tests.h"
#include "ops/cpu/attention/problem_for_tests.h"
#include "ops/cpu/attention/rope.h"

namespace nibble::ops::cpu {
namespace {

struct Case {
  std::int64_t rows, first, heads, dim, window;
  bool bidirectional = false;
  std::int64_t memory = 0;  // keys of another text
  float softcap = 0.0f;
  std::int64_t keys() const { return memory > 0 ? memory : first + rows; }
};

constexpr Case kCases[] = {{1, 0, 1, 8, 0},
                           {1, 37, 2, 64, 0},
                           {5, 10, 4, 24, 0},
                           {130, 0, 2, 32, 0},
                           {70, 33, 3, 16, 0},
                           {70, 33, 3, 16, 20},
                           {3, 100, 5, 128, 16},
                           {65, 0, 1, 20, 1},
                           {5, 0, 2, 24, 0, true},
                           {130, 0, 3, 32, 0, true},
                           {1, 0, 2, 24, 0, true, 37},
                           {70, 0, 3, 32, 0, true, 9},
                           {9, 0, 2, 16, 0, true, 70},
                           {3, 40, 2, 16, 0, false, 0, 0.7f},
                           {70, 33, 3, 16, 20, false, 0, 0.7f}};

constexpr KvType kTypes[] = {KvType::kF32, KvType::kF16, KvType::kInt8, KvType::kInt4,
                             KvType::kFp8};

using Attend = void (*)(const AttentionProblem&);

// Keys and values of all positions, and the problem of the last rows.
struct Filled {
  Filled(const Case& c, KvType type)
      : q(core::normal_values(c.rows * c.heads * c.dim, 1)), cache(type, 1, 1, c.dim, c.keys()) {
    const std::int64_t keys = c.keys();
    const std::vector<float> k = core::normal_values(keys * c.dim, 2);
    const std::vector<float> v = core::normal_values(keys * c.dim, 3);
    for (std::int64_t j = 0; j < keys; ++j) {
      cache.store(0, 0, j, k.data() + j * c.dim, v.data() + j * c.dim);
    }
    p = testing::problem_of(c, q, cache);
    p.memory_rows = c.memory;
  }
  std::vector<float> run(Attend attend) const {
    std::vector<float> out(q.size(), std::nanf(""));
    AttentionProblem problem = p;
    problem.out = out.data();
    attend(problem);
    return out;
  }
  std::vector<float> q;
  KvCache cache;
  AttentionProblem p;
};

// Largest difference between `attend` and the reference.
double difference(Attend attend, const Case& c, KvType type) {
  Filled problem(c, type);
  const std::vector<float> expected = problem.run(attend_reference);
  const std::vector<float> out = problem.run(attend);
  double worst = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double error = std::fabs(static_cast<double>(out[i]) - static_cast<double>(expected[i]));
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

TEST(Attention, RowsAndBlocksMatchTheReference) {
  for (const Case& c : kCases) {
    for (const KvType type : kTypes) {
      const double most = has_range(type) ? 3e-4 : 5e-6;  // queries and shares rounded to 16 bits
      EXPECT_LT(difference(attend_rows, c, type), most) << c.rows << " rows from " << c.first;
      EXPECT_LT(difference(attend_blocks, c, type), most) << c.rows << " rows from " << c.first;
    }
  }
}

// Blocks are rows, made faster: no bit differs.
TEST(Attention, BlocksAreRows) {
  std::vector<Case> cases(std::begin(kCases), std::end(kCases));
  for (const std::int64_t window : {0, 1, 2, 5, 16, 40, 100}) {
    for (const std::int64_t heads : {1, 3, 8}) {
      cases.push_back({75, 30, heads, 34, window});
    }
  }
  cases.push_back({9, 300, 70, 16, 0});  // more heads than a block has rows
  for (const Case& c : cases) {
    for (const KvType type : kTypes) {
      Filled problem(c, type);
      EXPECT_EQ(problem.run(attend_blocks), problem.run(attend_rows))
          << c.rows << " rows from " << c.first << ", " << c.heads << " heads, window " << c.window;
    }
  }
}

// All codes, NaN among them, as attention to a single token gives them back.
TEST(Attention, ValuesInFp8AreTheirCodes) {
  std::vector<float> codes;
  for (int code = 0; code < 256; ++code) {
    codes.push_back(core::to_float(core::E4m3{static_cast<std::uint8_t>(code)}));
  }
  const std::vector<float> key = core::normal_values(256, 1);
  const std::vector<float> q = core::normal_values(2 * 256, 2);
  KvCache cache(KvType::kFp8, 1, 1, 256, 1);
  cache.store(0, 0, 0, key.data(), codes.data());
  AttentionProblem p;
  p.q = q.data();
  p.ldq = p.ldo = 2 * 256;
  p.rows = 1;
  p.heads = 2;
  p.head_dim = 256;
  p.keys = cache.keys(0, 0);
  p.values = cache.values(0, 0);
  for (const Attend attend : {attend_rows, attend_blocks, attend_reference}) {
    std::vector<float> out(q.size());
    p.out = out.data();
    attend(p);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const float right = codes[i % 256];
      EXPECT_TRUE(out[i] == right || (std::isnan(out[i]) && std::isnan(right))) << i;
    }
  }
}

TEST(Attention, SoftcapAndScaleAreSeen) {
  const auto uncapped = [](const AttentionProblem& p) {
    AttentionProblem wrong = p;
    wrong.softcap = 0.0f;
    attend_rows(wrong);
  };
  const auto unscaled = [](const AttentionProblem& p) {
    AttentionProblem wrong = p;
    wrong.scale = 1.0f;
    attend_rows(wrong);
  };
  EXPECT_GT(difference(uncapped, {5, 10, 2, 16, 0, false, 0, 0.7f}, KvType::kF32), 1e-3);
  EXPECT_GT(difference(unscaled, {5, 10, 2, 16, 0}, KvType::kF32), 1e-3);
}

TEST(Attention, ShiftedProblemIsSeen) {
  const auto shifted = [](const AttentionProblem& p) {
    AttentionProblem wrong = p;
    ++wrong.first_position;  // sees one key too many
    --wrong.rows;
    attend_rows(wrong);
  };
  EXPECT_GT(difference(shifted, {5, 10, 2, 16, 0}, KvType::kF32), 1e-3);
}

TEST(Rope, TurnsPairsByTheirAngle) {
  Rotation rotation;
  const std::vector<float> frequency = {1.0f, 0.25f};
  rotation.set(frequency, 3, 1.0f);
  std::vector<float> head = {1, 2, 3, 4, 9};  // the last element is not rotary
  rotate(head.data(), rotation);
  EXPECT_NEAR(head[0], 1 * std::cos(3.0) - 3 * std::sin(3.0), 1e-6);
  EXPECT_NEAR(head[2], 3 * std::cos(3.0) + 1 * std::sin(3.0), 1e-6);
  EXPECT_NEAR(head[1], 2 * std::cos(0.75) - 4 * std::sin(0.75), 1e-6);
  EXPECT_NEAR(head[3], 4 * std::cos(0.75) + 2 * std::sin(0.75), 1e-6);
  EXPECT_EQ(head[4], 9);
}

// The whole operator: continuing a sequence piece by piece gives what one piece gives.
TEST(Attention, ContinuesSequencesFromTheirCaches) {
  auto pool = std::make_shared<BufferPool>();
  core::ThreadPool threads(2);
  AttentionSpec spec;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.head_dim = 16;
  spec.inverse_frequency = {1.0f, 0.5f, 0.25f, 0.125f, 0.1f, 0.05f, 0.02f, 0.01f};
  spec.q_norm = core::normal_values(16, 8);
  spec.k_norm = core::normal_values(16, 9);
  constexpr std::int64_t kTokens = 40;
  const std::int64_t width = (4 + 2 * 2) * 16;
  const std::vector<float> values = core::normal_values(kTokens * width, 4);
  const auto run = [&](const std::vector<std::int64_t>& pieces, KvCache* cache) {
    std::vector<float> result;
    std::int64_t position = 0;
    for (const std::int64_t rows : pieces) {
      Matrix qkv(pool, rows, width);
      std::copy_n(values.data() + position * width, rows * width, qkv.data());
      Matrix out(pool, rows, 64);
      std::vector<std::int32_t> positions(static_cast<std::size_t>(rows));
      std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(position));
      const SequenceSlice<KvCache> slice{cache, position, 0, rows};
      attention(qkv, spec, 0, {{}, positions, {&slice, 1}}, out, threads);
      result.insert(result.end(), out.values().begin(), out.values().end());
      position += rows;
    }
    return result;
  };
  const std::vector<float> whole = run({kTokens}, nullptr);
  KvCache cache(KvType::kF32, 1, 2, 16, kTokens);
  const std::vector<float> pieces = run({17, 1, 1, 3, 18}, &cache);
  EXPECT_EQ(whole, pieces);
  // Rounded keys and values: the error is that of their steps, however the sequence is cut.
  for (const auto& [types, tolerance] :
       {std::pair{KvTypes(KvType::kInt8), 0.006}, std::pair{KvTypes(KvType::kInt4), 0.1},
        std::pair{KvTypes(KvType::kInt8, KvType::kInt4), 0.08},
        std::pair{KvTypes(KvType::kFp8), 0.06},
        std::pair{KvTypes(KvType::kInt4, KvType::kF16), 0.08}}) {
    KvCache rounded_cache(types, 1, 2, 16, kTokens);
    const std::vector<float> rounded = run({17, 1, 1, 3, 18}, &rounded_cache);
    EXPECT_EQ(rounded_cache.key_turn() != nullptr, types.keys == KvType::kInt4);
    EXPECT_EQ(rounded_cache.value_turn() != nullptr, types.values == KvType::kInt4);
    double error = 0;
    double total = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      error += (rounded[i] - whole[i]) * (rounded[i] - whole[i]);
      total += whole[i] * whole[i];
    }
    EXPECT_LT(std::sqrt(error / total), tolerance);
    EXPECT_GT(std::sqrt(error / total), tolerance / 10);
  }
}

// What all keys have in common does not change the result, and takes part in no rounding.
TEST(Attention, KeysAreStoredLessTheirCentre) {
  constexpr std::int64_t kTokens = 40;
  constexpr std::int64_t kDim = 32;
  const std::int64_t width = 4 * kDim;  // two queries, a key, a value
  const auto pool = std::make_shared<BufferPool>();
  core::ThreadPool threads(1);
  AttentionSpec spec;
  spec.heads = 2;
  spec.kv_heads = 1;
  spec.head_dim = kDim;
  std::vector<float> centre = core::normal_values(kDim, 3);
  const std::vector<float> values = core::normal_values(kTokens * width, 4);
  std::vector<std::int32_t> positions(kTokens);
  std::iota(positions.begin(), positions.end(), 0);
  const auto run = [&](KvTypes types, bool shifted) {
    KvCache cache(types, 1, 1, kDim, kTokens);
    Matrix qkv(pool, kTokens, width);
    std::copy(values.begin(), values.end(), qkv.data());
    for (std::int64_t i = 0; shifted && i < kTokens; ++i) {
      for (std::int64_t d = 0; d < kDim; ++d) {
        qkv.row(i)[2 * kDim + d] += 4.0f * centre[static_cast<std::size_t>(d)];
      }
    }
    Matrix out(pool, kTokens, 2 * kDim);
    const SequenceSlice<KvCache> slice{&cache, 0, 0, kTokens};
    attention(qkv, spec, 0, {{}, positions, {&slice, 1}}, out, threads);
    return std::vector<float>(out.values().begin(), out.values().end());
  };
  const auto error_of = [](const std::vector<float>& got, const std::vector<float>& right) {
    double error = 0;
    double total = 0;
    for (std::size_t i = 0; i < right.size(); ++i) {
      error += (got[i] - right[i]) * (got[i] - right[i]);
      total += right[i] * right[i];
    }
    return std::sqrt(error / total);
  };
  const std::vector<float> right = run(KvType::kF32, false);
  const double with_shift = error_of(run(KvType::kInt4, true), right);
  const double without = error_of(run(KvType::kInt4, false), right);
  for (float& value : centre) {
    spec.key_centre.push_back(4.0f * value);
  }
  EXPECT_LT(error_of(run(KvType::kF32, true), right), 1e-5);
  EXPECT_LT(error_of(run(KvType::kF32, false), right), 1e-5);
  EXPECT_NEAR(error_of(run(KvType::kInt4, true), right), without, 0.02 * without);
  EXPECT_GT(with_shift, 1.5 * without);
}

// Sequences in one pool whose pages lie mixed, cut into slices at random and computed together.
class Mixed {
 public:
  Mixed(const AttentionSpec& spec, KvTypes types, std::uint64_t seed)
      : spec_(spec),
        random_(seed),
        pool_(types, 2, spec.kv_heads, spec.head_dim, kSequences * kPages),
        width_((spec.heads + 2 * spec.kv_heads) * spec.head_dim) {
    std::vector<PageId> pages(static_cast<std::size_t>(kSequences * kPages));
    std::iota(pages.begin(), pages.end(), 0);
    for (std::size_t i = pages.size(); i > 1; --i) {
      std::swap(pages[i - 1],
                pages[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(i)))]);
    }
    for (std::int64_t s = 0; s < kSequences; ++s) {
      lists_.emplace_back(pages.begin() + s * kPages, pages.begin() + (s + 1) * kPages);
      inputs_.push_back(
          core::normal_values(kTokens * width_, seed + static_cast<std::uint64_t>(s)));
    }
    results_.resize(inputs_.size());
  }

  // Next slices of some of the sequences, until all are done.
  void run_together() {
    std::vector<std::int64_t> done(lists_.size());
    while (std::accumulate(done.begin(), done.end(), std::int64_t{0}) < kSequences * kTokens) {
      std::vector<std::int64_t> rows(lists_.size());
      for (std::size_t s = 0; s < lists_.size(); ++s) {
        const std::int64_t most = random_.below(3) == 0 ? 1 : 1 + random_.below(40);
        rows[s] = random_.below(4) == 0 ? 0 : std::min(most, kTokens - done[s]);
      }
      step(done, rows);
    }
  }

  // Of one sequence, a token at a time, in a cache of its own.
  std::vector<float> alone(std::size_t s, KvTypes types) {
    KvCache cache(types, 2, spec_.kv_heads, spec_.head_dim, kTokens);
    std::vector<float> result;
    for (std::int64_t position = 0; position < kTokens; ++position) {
      Matrix qkv(buffers_, 1, width_);
      std::copy_n(inputs_[s].data() + position * width_, width_, qkv.data());
      Matrix out(buffers_, 1, spec_.heads * spec_.head_dim);
      const auto at = static_cast<std::int32_t>(position);
      const SequenceSlice<KvCache> slice{&cache, position, 0, 1};
      attention(qkv, spec_, 1, {{}, {&at, 1}, {&slice, 1}}, out, threads_);
      result.insert(result.end(), out.values().begin(), out.values().end());
    }
    return result;
  }

  const std::vector<float>& together(std::size_t s) const { return results_[s]; }

  std::size_t sequences() const { return lists_.size(); }

 private:
  static constexpr std::int64_t kSequences = 3;
  static constexpr std::int64_t kTokens = 75;
  static constexpr std::int64_t kPages = 5;

  void step(std::vector<std::int64_t>& done, const std::vector<std::int64_t>& rows) {
    const std::int64_t m = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
    Matrix qkv(buffers_, m, width_);
    Matrix out(buffers_, m, spec_.heads * spec_.head_dim);
    std::vector<KvCache> caches;
    std::vector<SequenceSlice<KvCache>> slices;
    std::vector<std::int32_t> positions;
    caches.reserve(lists_.size());
    for (const std::vector<PageId>& list : lists_) {
      caches.emplace_back(pool_, list);
    }
    for (std::size_t s = 0; s < lists_.size(); ++s) {
      const auto row = static_cast<std::int64_t>(positions.size());
      std::copy_n(inputs_[s].data() + done[s] * width_, rows[s] * width_,
                  qkv.data() + row * width_);
      for (std::int64_t i = 0; i < rows[s]; ++i) {
        positions.push_back(static_cast<std::int32_t>(done[s] + i));
      }
      if (rows[s] > 0) {
        slices.push_back({&caches[s], done[s], row, rows[s]});
      }
    }
    attention(qkv, spec_, 1, {{}, positions, slices}, out, threads_);
    std::int64_t row = 0;
    for (std::size_t s = 0; s < lists_.size(); ++s) {
      results_[s].insert(results_[s].end(), out.row(row), out.row(row) + rows[s] * out.columns());
      row += rows[s];
      done[s] += rows[s];
    }
  }

  AttentionSpec spec_;
  core::Random random_;
  KvPool pool_;
  std::int64_t width_;
  core::ThreadPool threads_{2};
  std::shared_ptr<BufferPool> buffers_ = std::make_shared<BufferPool>();
  std::vector<std::vector<PageId>> lists_;
  std::vector<std::vector<float>> inputs_;
  std::vector<std::vector<float>> results_;
};

TEST(Attention, RowsDoNotDependOnSlicesOrNeighbours) {
  std::uint64_t seed = 1;
  for (const auto& [heads, kv_heads] : {std::pair{4, 2}, {6, 1}, {2, 2}}) {
    for (const std::int64_t dim : {32, 64, 80, 128}) {
      for (const std::int64_t window : {0, 21}) {
        for (const KvTypes types : {KvTypes(KvType::kF32), KvTypes(KvType::kF16),
                                    KvTypes(KvType::kInt8), KvTypes(KvType::kInt4),
                                    KvTypes(KvType::kInt8, KvType::kInt4), KvTypes(KvType::kFp8)}) {
          AttentionSpec spec;
          spec.heads = heads;
          spec.kv_heads = kv_heads;
          spec.head_dim = dim;
          spec.mask.window = window;
          spec.inverse_frequency = {1.0f, 0.5f, 0.25f, 0.125f};
          spec.q_norm = core::normal_values(dim, 8);
          spec.k_norm = core::normal_values(dim, 9);
          Mixed mixed(spec, types, seed++);
          mixed.run_together();
          for (std::size_t s = 0; s < mixed.sequences(); ++s) {
            ASSERT_EQ(mixed.together(s), mixed.alone(s, types))
                << heads << '/' << kv_heads << " heads of " << dim << ", window " << window;
          }
        }
      }
    }
  }
}

// A prompt whose heads are fewer than the threads is dealt out in pieces of its rows.
TEST(Attention, PiecesOfAPromptAreTheWhole) {
  AttentionSpec spec;
  spec.heads = 6;
  spec.kv_heads = 2;
  spec.head_dim = 32;
  spec.inverse_frequency = {1.0f, 0.5f, 0.25f, 0.125f};
  const std::int64_t width = (spec.heads + 2 * spec.kv_heads) * spec.head_dim;
  core::ThreadPool one(1);
  core::ThreadPool many(9);
  const auto buffers = std::make_shared<BufferPool>();
  for (const std::int64_t rows : {1, 63, 64, 130, 301}) {
    for (const std::int64_t first : {0, 45}) {
      for (const KvType type : kTypes) {
        for (const std::int64_t window : {0, 70}) {
          spec.mask.window = window;
          const std::vector<float> values = core::normal_values((first + rows) * width, 5);
          const auto run = [&](core::ThreadPool& pool) {
            KvCache cache(type, 1, spec.kv_heads, spec.head_dim, first + rows);
            std::vector<float> results;
            for (const auto& [begin, end] :
                 {std::pair{std::int64_t{0}, first}, std::pair{first, first + rows}}) {
              Matrix qkv(buffers, end - begin, width);
              std::copy_n(values.data() + begin * width, (end - begin) * width, qkv.data());
              std::vector<std::int32_t> positions(static_cast<std::size_t>(end - begin));
              std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(begin));
              const std::vector<SequenceSlice<KvCache>> slices = {{&cache, begin, 0, end - begin}};
              Matrix out(buffers, end - begin, spec.heads * spec.head_dim);
              attention(qkv, spec, 0, {{}, positions, slices}, out, pool);
              results.assign(out.data(), out.data() + out.rows() * out.columns());
            }
            return results;
          };
          ASSERT_EQ(run(many), run(one)) << rows << " rows from " << first << ", window " << window;
        }
      }
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
