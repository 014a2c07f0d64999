#include "eval/machine_limits.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include <sys/mman.h>

#include "core/error.h"
#include "ops/cpu/packed/cpu_features.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace nibble::eval {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kReadBytes = std::size_t{256} << 20;  // several times the last-level cache
constexpr std::int64_t kDotRounds = 2'000'000;
constexpr int kRepeats = 3;

// One worker's share of the best of some repeats, as a rate over all workers.
template <typename Body>
double best_rate(core::ThreadPool& pool, double work, Body body) {
  double best = 0;
  for (int i = 0; i < kRepeats; ++i) {
    const auto start = Clock::now();
    pool.run(body);
    best = std::max(best, work / std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

std::uint64_t sum_words(const std::uint64_t* words, std::size_t count) {
  std::uint64_t sums[8] = {};  // independent chains, so that loads and not additions are the limit
  for (std::size_t i = 0; i + 8 <= count; i += 8) {
    __builtin_prefetch(words + i + 512);
    for (std::size_t lane = 0; lane < 8; ++lane) {
      sums[lane] += words[i + lane];
    }
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t lane : sums) {
    sum += lane;
  }
  return sum;
}

double read_rate(core::ThreadPool& pool) {
  const std::size_t count = kReadBytes / sizeof(std::uint64_t);
  const std::unique_ptr<std::uint64_t, void (*)(void*)> memory(
      static_cast<std::uint64_t*>(std::aligned_alloc(std::size_t{2} << 20, kReadBytes)), std::free);
  core::require(memory != nullptr, core::ErrorKind::kOutOfMemory,
                "cannot allocate {} bytes to measure the memory", kReadBytes);
  madvise(memory.get(), kReadBytes, MADV_HUGEPAGE);  // as the packed weights do
  const std::size_t share = count / static_cast<std::size_t>(pool.size());
  const auto part = [&](int worker) {
    return memory.get() + static_cast<std::size_t>(worker) * share;
  };
  pool.run([&](int worker) { std::memset(part(worker), 1, share * sizeof(std::uint64_t)); });
  std::atomic<std::uint64_t> sink{0};
  const double bytes = static_cast<double>(share * sizeof(std::uint64_t)) * pool.size();
  return best_rate(pool, bytes, [&](int worker) { sink += sum_words(part(worker), share); });
}

// A loop of 8-bit products summed in registers, and the multiply-adds of one round.
struct DotLoop {
  std::int64_t per_round;
  std::int64_t (*run)(std::int64_t rounds);
};

std::int64_t dot_scalar(std::int64_t rounds) {
  volatile std::int8_t a = 3;
  volatile std::int8_t b = 5;
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < rounds; ++i) {
    sum += static_cast<std::int32_t>(a) * b;
  }
  return sum;
}

#if defined(__x86_64__)
constexpr int kChains = 8;  // independent sums, to hide the latency

// vpmaddubsw and a 16-bit addition: what there is without VNNI.
__attribute__((target("avx2"))) std::int64_t dot_avx2(std::int64_t rounds) {
  __m256i sums[kChains] = {};
  const __m256i a = _mm256_set1_epi8(3);
  __m256i b = _mm256_set1_epi8(5);
  for (std::int64_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+x"(b));  // keeps the product inside the loop
    for (__m256i& sum : sums) {
      sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(a, b));
    }
  }
  __m256i total = sums[0];
  for (int chain = 1; chain < kChains; ++chain) {
    total = _mm256_add_epi16(total, sums[chain]);
  }
  return _mm256_extract_epi16(total, 0);
}

__attribute__((target("avx2,avxvnni"))) std::int64_t dot_avxvnni(std::int64_t rounds) {
  __m256i sums[kChains] = {};
  const __m256i a = _mm256_set1_epi8(3);
  const __m256i b = _mm256_set1_epi8(5);
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (__m256i& sum : sums) {
      asm volatile("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
    }
  }
  return _mm256_extract_epi32(sums[0], 0);
}

__attribute__((target("avx512f,avx512vnni"))) std::int64_t dot_avx512vnni(std::int64_t rounds) {
  __m512i sums[kChains] = {};
  const __m512i a = _mm512_set1_epi8(3);
  const __m512i b = _mm512_set1_epi8(5);
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (__m512i& sum : sums) {
      asm volatile("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    }
  }
  std::int32_t lanes[16];
  _mm512_storeu_si512(lanes, sums[0]);
  return lanes[0];
}

DotLoop dot_loop() {
  const ops::cpu::CpuFeatures& features = ops::cpu::cpu_features();
  if (features.avx512vnni) {
    return {64 * kChains, dot_avx512vnni};
  }
  if (features.avxvnni) {
    return {32 * kChains, dot_avxvnni};
  }
  if (features.avx2) {
    return {32 * kChains, dot_avx2};
  }
  return {1, dot_scalar};
}
#else
DotLoop dot_loop() {
  return {1, dot_scalar};
}
#endif

double dot_rate(core::ThreadPool& pool) {
  const DotLoop loop = dot_loop();
  std::atomic<std::int64_t> sink{0};
  const double work = static_cast<double>(kDotRounds * loop.per_round) * pool.size();
  return best_rate(pool, work, [&](int) { sink += loop.run(kDotRounds); });
}

}  // namespace

MachineLimits measure_machine_limits(core::ThreadPool& pool) {
  return {read_rate(pool), dot_rate(pool)};
}

}  // namespace nibble::eval
