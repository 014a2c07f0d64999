#include "float_limits.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "measure.h"
#include "ops/cpu/architecture/architecture.h"
#include "ops/cpu/cpu_features.h"
#include "ops/cpu/packed/page_buffer.h"

namespace nibble::bench {
namespace {

constexpr int kRepeats = 7;
constexpr int kChains = 12;  // latency 4, two each cycle
constexpr std::int64_t kRounds = 1'000'000;
constexpr std::int64_t kCachedBytes = 512 << 10;
constexpr std::int64_t kPasses = 200;
constexpr std::int64_t kTileRounds = 200'000;

// Each function returns the number of multiply-adds, or reads all bytes once.
struct Loops {
  std::int64_t (*multiply_add)();
  void (*read)(const std::byte* data, std::int64_t bytes);
};

#if defined(__x86_64__)
__attribute__((target("avx512f"))) std::int64_t multiply_add_512() {
  __m512 sums[kChains] = {};
  asm volatile("" : "+m"(sums));  // or the compiler makes one chain of all
  const __m512 a = _mm512_set1_ps(0.5f);
  for (std::int64_t round = 0; round < kRounds; ++round) {
#pragma GCC unroll 12
    for (auto& sum : sums) {
      sum = _mm512_fmadd_ps(sum, a, a);
    }
  }
  asm volatile("" : : "m"(sums));
  return kRounds * kChains * 16;
}

__attribute__((target("avx512f"))) void read_512(const std::byte* data, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 64) {
    const __m512i word = _mm512_load_si512(data + i);
    asm volatile("" : : "v"(word));
  }
}

__attribute__((target("avx2,fma"))) std::int64_t multiply_add_256() {
  __m256 sums[kChains] = {};
  asm volatile("" : "+m"(sums));
  const __m256 a = _mm256_set1_ps(0.5f);
  for (std::int64_t round = 0; round < kRounds; ++round) {
#pragma GCC unroll 12
    for (auto& sum : sums) {
      sum = _mm256_fmadd_ps(sum, a, a);
    }
  }
  asm volatile("" : : "m"(sums));
  return kRounds * kChains * 8;
}

__attribute__((target("avx2"))) void read_256(const std::byte* data, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 32) {
    const __m256i word = _mm256_load_si256(reinterpret_cast<const __m256i*>(data + i));
    asm volatile("" : : "x"(word));
  }
}
#endif

// 16 bytes, which every processor has registers for.
using Floats = float __attribute__((vector_size(16)));

std::int64_t multiply_add_128() {
  Floats sums[kChains] = {};
  asm volatile("" : "+m"(sums));
  const Floats a = {0.5f, 0.5f, 0.5f, 0.5f};
  for (std::int64_t round = 0; round < kRounds; ++round) {
#pragma GCC unroll 12
    for (auto& sum : sums) {
      sum = sum * a + a;
    }
  }
  asm volatile("" : : "m"(sums));
  return kRounds * kChains * 4;
}

void read_128(const std::byte* data, std::int64_t bytes) {
  Floats sum = {};
  for (std::int64_t i = 0; i < bytes; i += 16) {
    Floats word;
    std::memcpy(&word, data + i, sizeof(word));
    sum = word;
    asm volatile("" : : "m"(sum));
  }
}

Loops loops() {
#if defined(__x86_64__)
  if (ops::cpu::cpu_features().avx512) {
    return {multiply_add_512, read_512};
  }
  if (ops::cpu::cpu_features().avx2) {
    return {multiply_add_256, read_256};
  }
#endif
  return {multiply_add_128, read_128};
}

// The best of some repeats of `body(worker)`, which returns what it did.
template <typename Body>
double best_rate(core::ThreadPool& pool, Body body) {
  double best = 0;
  std::vector<std::int64_t> done(static_cast<std::size_t>(pool.size()));
  for (int i = 0; i < kRepeats; ++i) {
    const double start = now();
    pool.run_each([&](int worker) { done[static_cast<std::size_t>(worker)] = body(worker); });
    const auto sum = std::accumulate(done.begin(), done.end(), std::int64_t{0});
    best = std::max(best, static_cast<double>(sum) / (now() - start));
  }
  return best;
}

// The tile registers that layers of floats take; null: none.
const ops::cpu::FloatTiles* tiles_in_use() {
  const ops::cpu::FloatTiles* const tiles = ops::cpu::architecture_float_tiles();
  const ops::cpu::Variant* const named = ops::cpu::named_variant();
  const bool wanted = named == nullptr || named->has_tile_registers;
  return tiles != nullptr && wanted && tiles->runs_here() ? tiles : nullptr;
}

}  // namespace

FloatLimits measure_float_limits(core::ThreadPool& pool) {
  const Loops best = loops();
  ops::cpu::PageBuffer buffer(kCachedBytes * pool.size());
  std::memset(buffer.data(), 1, static_cast<std::size_t>(buffer.bytes()));
  FloatLimits limits;
  limits.multiply_adds_per_second = best_rate(pool, [&](int) { return best.multiply_add(); });
  limits.cached_read_bytes_per_second = best_rate(pool, [&](int worker) {
    for (std::int64_t pass = 0; pass < kPasses; ++pass) {
      best.read(buffer.data() + worker * kCachedBytes, kCachedBytes);
    }
    return kPasses * kCachedBytes;
  });
  if (const ops::cpu::FloatTiles* const tiles = tiles_in_use(); tiles != nullptr) {
    limits.tile_multiply_adds_per_second =
        best_rate(pool, [&](int) { return tiles->multiply_registers(kTileRounds); });
  }
  return limits;
}

}  // namespace nibble::bench
