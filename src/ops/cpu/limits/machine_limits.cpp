#include "ops/cpu/limits/machine_limits.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include <unistd.h>

#include "ops/cpu/packed/page_buffer.h"
#include "ops/cpu/packed/variants.h"

namespace nibble::ops::cpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kLeastBytes = std::int64_t{256} << 20;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;
constexpr std::int64_t kDotRounds = 4'000'000;
constexpr int kRepeats = 5;

// Four times the last-level cache, within bounds that every machine can give.
std::int64_t read_buffer_bytes() {
  return std::clamp<std::int64_t>(4 * sysconf(_SC_LEVEL3_CACHE_SIZE), kLeastBytes, kMostBytes);
}

// The best of some repeats of `body(worker)`, which returns what it did, as a rate of all workers.
template <typename Body>
double best_rate(core::ThreadPool& pool, Body body) {
  double best = 0;
  std::vector<std::int64_t> done(static_cast<std::size_t>(pool.size()));
  for (int i = 0; i < kRepeats; ++i) {
    const auto start = Clock::now();
    pool.run_each([&](int worker) { done[static_cast<std::size_t>(worker)] = body(worker); });
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const auto sum = std::accumulate(done.begin(), done.end(), std::int64_t{0});
    best = std::max(best, static_cast<double>(sum) / seconds);
  }
  return best;
}

// Reads every word; independent chains, so that loads and not additions are the limit.
void read_words(const std::uint64_t* words, std::int64_t count) {
  std::uint64_t sums[8] = {};
  for (std::int64_t i = 0; i + 8 <= count; i += 8) {
    __builtin_prefetch(words + i + 512);
    for (std::int64_t lane = 0; lane < 8; ++lane) {
      sums[lane] ^= words[i + lane];
    }
  }
  asm volatile("" : : "m"(sums));
}

double read_rate(core::ThreadPool& pool) {
  constexpr std::int64_t kWord = sizeof(std::uint64_t);
  PageBuffer buffer(read_buffer_bytes());  // huge pages, as the packed weights have
  const std::int64_t share = buffer.bytes() / kWord / pool.size();
  auto* const words = reinterpret_cast<std::uint64_t*>(buffer.data());
  const auto part = [&](int worker) { return words + worker * share; };
  const auto bytes = static_cast<std::size_t>(share * kWord);
  pool.run_each([&](int worker) { std::memset(part(worker), 1, bytes); });
  return best_rate(pool, [&](int worker) {
    read_words(part(worker), share);
    return share * kWord;
  });
}

double dot_rate(core::ThreadPool& pool) {
  const Variant& variant = active_variant();
  return best_rate(pool, [&](int) { return variant.multiply_registers(kDotRounds); });
}

}  // namespace

MachineLimits measure_machine_limits(core::ThreadPool& pool) {
  return {read_rate(pool), dot_rate(pool)};
}

}  // namespace nibble::ops::cpu
