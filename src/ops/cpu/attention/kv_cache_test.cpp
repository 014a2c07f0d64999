#include "ops/cpu/attention/kv_cache.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/float8.h"
#include "core/random_values_for_tests.h"
#include "ops/cpu/attention/attention.h"

namespace nibble::ops::cpu {
namespace {

constexpr KvType kTypes[] = {KvType::kF32, KvType::kF16, KvType::kInt8, KvType::kInt4,
                             KvType::kFp8};

template <typename Work>
core::ErrorKind kind_of_error(Work work) {
  try {
    work();
  } catch (const core::Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

// Every element within half a step of what was stored, the ends of the range exactly as 16 bits
// can; constant vectors, and vectors that are not finite.
TEST(KvCache, IntegersAreWithinHalfAStep) {
  constexpr std::int64_t kDim = 26;
  const std::vector<float> x = core::normal_values(kDim, 8);
  const std::vector<float> constant(kDim, 0.7f);
  for (const auto& [type, levels] : {std::pair{KvType::kInt8, 255}, std::pair{KvType::kInt4, 15}}) {
    KvCache cache(type, 2, 3, kDim, 5);
    cache.store(1, 2, 4, x.data(), constant.data());
    const KvView keys = cache.keys(1, 2).page(0);
    const KvView values = cache.values(1, 2).page(0);
    const int bits = code_bits(type);
    const auto decoded = [&](const KvView& view, auto place, std::int64_t d) {
      const int code =
          code_at(static_cast<const std::uint8_t*>(view.data), place(bits, 4, d), bits);
      return core::to_float(view.smallest[4]) +
             core::to_float(view.steps[4]) * static_cast<float>(code);
    };
    const auto [smallest, largest] = std::minmax_element(x.begin(), x.end());
    const float step = (*largest - *smallest) / static_cast<float>(levels);
    for (std::int64_t d = 0; d < kDim; ++d) {
      EXPECT_NEAR(decoded(keys, key_code_place, d), x[static_cast<std::size_t>(d)],
                  0.502f * step + 0.004f);
      EXPECT_NEAR(decoded(values, value_code_place, d), 0.7f, 5e-4f);
    }
    std::vector<float> broken = x;
    broken[3] = std::numeric_limits<float>::infinity();
    cache.store(0, 0, 0, broken.data(), x.data());
    EXPECT_TRUE(std::isnan(core::to_float(cache.keys(0, 0).page(0).smallest[0])));
  }
  EXPECT_EQ(KvCache::bytes(KvType::kInt4, 2, 3, 64, 10), 2 * 2 * 3 * 16 * (32 + 4));
  EXPECT_EQ(KvCache::bytes(KvType::kInt8, 2, 3, 64, 17), 2 * 2 * 3 * 32 * (64 + 4));
  EXPECT_EQ(KvCache::bytes({KvType::kInt8, KvType::kInt4}, 2, 3, 64, 10),
            2 * 3 * 16 * (64 + 4 + 32 + 4));
  EXPECT_THROW(KvCache(KvType::kInt4, 1, 1, 25, 1), core::Error);
  EXPECT_THROW(KvCache({KvType::kF16, KvType::kInt4}, 1, 1, 25, 1), core::Error);
}

// Elements are codes of their own: nothing else in a vector matters, and nothing is stored beside
// them.
TEST(KvCache, Fp8StoresEachElementAsItsNearest) {
  constexpr std::int64_t kDim = 27;
  std::vector<float> x = core::normal_values(kDim, 8);
  x[3] = 1000.0f;
  x[4] = -std::numeric_limits<float>::infinity();
  x[5] = std::nanf("");
  const std::vector<float> y = core::normal_values(kDim, 9);
  KvCache cache(KvType::kFp8, 2, 3, kDim, 5);
  cache.store(1, 2, 4, x.data(), y.data());
  const KvView keys = cache.keys(1, 2).page(0);
  const KvView values = cache.values(1, 2).page(0);
  EXPECT_EQ(keys.steps, nullptr);
  EXPECT_EQ(values.steps, nullptr);
  for (std::int64_t d = 0; d < kDim; ++d) {
    const auto at = static_cast<std::size_t>(d);
    EXPECT_EQ(static_cast<const core::E4m3*>(keys.data)[fp8_key_place(4, d)], core::to_e4m3(x[at]))
        << d;
    EXPECT_EQ(static_cast<const core::E4m3*>(values.data)[4 * kDim + d], core::to_e4m3(y[at])) << d;
  }
  EXPECT_EQ(KvCache::bytes(KvType::kFp8, 2, 3, 27, 17), 2 * 3 * 32 * (32 + 27));
  EXPECT_EQ(KvCache::bytes(KvType::kFp8, 2, 3, 64, 17), 2 * 3 * 32 * 2 * 64);
  EXPECT_EQ(cache.key_turn(), nullptr);
  EXPECT_EQ(kind_of_error([] {
              KvCache({KvType::kFp8, KvType::kF16}, 1, 1, 8, 1);
            }),
            core::ErrorKind::kUsage);
  EXPECT_EQ(kind_of_error([] {
              KvCache({KvType::kInt8, KvType::kFp8}, 1, 1, 8, 1);
            }),
            core::ErrorKind::kUsage);
}

TEST(KvCache, TypesByName) {
  EXPECT_EQ(parse_kv_types("int8"), KvTypes(KvType::kInt8));
  EXPECT_EQ(parse_kv_types("f16-int4"), KvTypes(KvType::kF16, KvType::kInt4));
  EXPECT_EQ(parse_kv_types("fp8"), KvTypes(KvType::kFp8));
  for (const char* wrong :
       {"fp8-int8", "f16-fp8", "f8", "", "int5", "int8-", "-int8", "int8-int4-f16", "INT8"}) {
    EXPECT_THROW(parse_kv_types(wrong), core::Error) << wrong;
  }
}

// Keys and values of `tokens` positions of head 1 of layer 2.
void fill(KvCache& cache, std::int64_t tokens, std::uint64_t seed) {
  const std::int64_t dim = cache.head_dim();
  const std::vector<float> k = core::normal_values(tokens * dim, seed);
  const std::vector<float> v = core::normal_values(tokens * dim, seed + 100);
  for (std::int64_t j = 0; j < tokens; ++j) {
    cache.store(2, 1, j, k.data() + j * dim, v.data() + j * dim);
  }
}

std::vector<float> attended(const KvCache& cache, std::int64_t first, std::int64_t rows,
                            std::int64_t window) {
  constexpr std::int64_t kHeads = 3;
  const std::vector<float> q = core::normal_values(rows * kHeads * cache.head_dim(), 1);
  std::vector<float> out(q.size(), std::nanf(""));
  AttentionProblem p;
  p.q = q.data();
  p.out = out.data();
  p.ldq = p.ldo = kHeads * cache.head_dim();
  p.rows = rows;
  p.heads = kHeads;
  p.head_dim = cache.head_dim();
  p.first_position = first;
  p.mask.window = window;
  p.keys = cache.keys(2, 1);
  p.values = cache.values(2, 1);
  attend_rows(p);
  return out;
}

// Two sequences whose pages lie mixed and in no order read what each would read alone.
TEST(KvPool, PagesLieAnywhere) {
  constexpr std::int64_t kDim = 20;
  constexpr std::int64_t kTokens = 60;
  for (const KvType keys : kTypes) {
    for (const KvType values : kTypes) {
      const KvTypes types(keys, values);
      if (!types.go_together()) {
        continue;
      }
      KvPool pool(types, 3, 2, kDim, 9);
      const std::vector<PageId> one = {7, 0, 3, 8};
      const std::vector<PageId> two = {1, 6, 5, 2};
      KvCache shared[] = {KvCache(pool, one), KvCache(pool, two)};
      KvCache alone[] = {KvCache(types, 3, 2, kDim, kTokens), KvCache(types, 3, 2, kDim, kTokens)};
      for (std::uint64_t s = 0; s < 2; ++s) {
        fill(shared[s], kTokens, 10 + s);
        fill(alone[s], kTokens, 10 + s);
      }
      for (std::size_t s = 0; s < 2; ++s) {
        for (const std::int64_t window : {0, 5, 16, 30}) {
          EXPECT_EQ(attended(shared[s], 15, 45, window), attended(alone[s], 15, 45, window));
        }
      }
      EXPECT_NE(attended(shared[0], 15, 45, 0), attended(shared[1], 15, 45, 0));
    }
  }
}

// Pages give the very bits that vectors in one piece give.
TEST(KvPool, PagesAreLikeOnePage) {
  constexpr std::int64_t kDim = 24;
  constexpr std::int64_t kTokens = 50;
  const std::vector<float> q = core::normal_values(kTokens * kDim, 1);
  const std::vector<float> k = core::normal_values(kTokens * kDim, 2);
  const std::vector<float> v = core::normal_values(kTokens * kDim, 3);
  KvCache cache(KvType::kF32, 1, 1, kDim, kTokens);
  for (std::int64_t j = 0; j < kTokens; ++j) {
    cache.store(0, 0, j, k.data() + j * kDim, v.data() + j * kDim);
  }
  std::vector<float> paged(q.size());
  std::vector<float> whole(q.size());
  AttentionProblem p;
  p.q = q.data();
  p.ldq = p.ldo = kDim;
  p.rows = kTokens;
  p.heads = 1;
  p.head_dim = kDim;
  p.keys = cache.keys(0, 0);
  p.values = cache.values(0, 0);
  p.out = paged.data();
  attend_rows(p);
  p.keys = one_page(k.data(), kDim);
  p.values = one_page(v.data(), kDim);
  p.out = whole.data();
  attend_rows(p);
  EXPECT_EQ(paged, whole);
}

// What a sequence goes on to write on a copied page does not reach the other.
TEST(KvPool, CopiedPagesPart) {
  constexpr std::int64_t kDim = 20;
  for (const KvTypes types : {KvTypes(KvType::kF32), KvTypes(KvType::kInt8)}) {
    KvPool pool(types, 3, 2, kDim, 4);
    const std::vector<PageId> one = {2, 0};
    const std::vector<PageId> two = {2, 3};
    KvCache first(pool, one);
    KvCache second(pool, two);
    fill(first, 25, 10);
    const std::vector<float> before = attended(first, 20, 5, 0);
    pool.copy(0, 3);
    EXPECT_EQ(attended(second, 20, 5, 0), before);
    fill(second, 25, 11);
    pool.copy(0, 0);
    fill(first, 16, 10);  // the page that they share
    EXPECT_EQ(attended(first, 20, 5, 0), before);
    EXPECT_NE(attended(second, 20, 5, 0), before);
    EXPECT_EQ(kind_of_error([&] { pool.copy(0, 4); }), core::ErrorKind::kFailed);
    EXPECT_EQ(kind_of_error([&] { pool.copy(-1, 0); }), core::ErrorKind::kFailed);
  }
}

TEST(KvPool, BytesAreThoseOfTheFormat) {
  EXPECT_EQ(KvPool::page_bytes(KvType::kF32, 2, 3, 64), 2 * 3 * 16 * 2 * 64 * 4);
  EXPECT_EQ(KvPool::page_bytes({KvType::kF16, KvType::kInt4}, 2, 3, 80),
            2 * 3 * 16 * (80 * 2 + 80 / 2 + 4));
  EXPECT_EQ(KvPool(KvType::kInt8, 2, 3, 80, 4).page_bytes(), 2 * 3 * 16 * (2 * 80 + 8));
}

TEST(KvPool, WhatIsNotThereIsRefused) {
  KvPool pool(KvType::kF16, 2, 3, 8, 4);
  const std::vector<float> x(8, 1.0f);
  const auto refused = [&](PageId page, std::int64_t slot, std::int64_t layer, std::int64_t head) {
    return kind_of_error([&] { pool.store(page, slot, layer, head, x.data(), x.data()); });
  };
  EXPECT_EQ(refused(4, 0, 0, 0), core::ErrorKind::kFailed);
  EXPECT_EQ(refused(-1, 0, 0, 0), core::ErrorKind::kFailed);
  EXPECT_EQ(refused(0, 16, 0, 0), core::ErrorKind::kFailed);
  EXPECT_EQ(refused(0, -1, 0, 0), core::ErrorKind::kFailed);
  EXPECT_EQ(refused(0, 0, 2, 0), core::ErrorKind::kFailed);
  EXPECT_EQ(refused(0, 0, 0, 3), core::ErrorKind::kFailed);
  pool.store(3, 15, 1, 2, x.data(), x.data());
  const std::vector<PageId> wrong = {0, 4};
  EXPECT_EQ(kind_of_error([&] { KvCache(pool, wrong); }), core::ErrorKind::kFailed);
  const std::vector<PageId> two = {2, 1};
  KvCache listed(pool, two);
  EXPECT_EQ(listed.capacity(), 32);
  KvCache owned(KvType::kF16, 2, 3, 8, 20);
  EXPECT_EQ(owned.capacity(), 20);
  for (auto& [cache, position] : {std::pair{&listed, 32}, {&listed, -1}, {&owned, 20}}) {
    EXPECT_EQ(kind_of_error([&] { cache->store(0, 0, position, x.data(), x.data()); }),
              core::ErrorKind::kFailed);
  }
  EXPECT_EQ(kind_of_error([] { KvPool(KvType::kF16, 1 << 10, 1 << 10, 1 << 10, 1 << 10); }),
            core::ErrorKind::kOutOfMemory);
  EXPECT_EQ(kind_of_error([] { KvPool(KvType::kF16, 1, 1, 64, std::int64_t{1} << 40); }),
            core::ErrorKind::kUsage);
}

}  // namespace
}  // namespace nibble::ops::cpu
