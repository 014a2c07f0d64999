#include "engine/cpu_layer_timer.h"

#include <algorithm>
#include <chrono>

#include "core/cpu_caches.h"
#include "core/random.h"
#include "ops/cpu/linear/linear_kernel.h"

namespace nibble::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSeconds = 0.1;      // of readings
constexpr std::size_t kReadings = 5;  // at least
constexpr std::int64_t kCaches = 4;   // that the layers in turn would fill

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The parts of a place alone, as the set number `id`.
ops::LinearSet set_of(const LayerPlace& place, int id) {
  ops::LinearSet set;
  set.id = id;
  for (std::size_t i = place.first; i < place.first + place.count; ++i) {
    const ops::Linear& part = place.set->parts[i];
    set.parts.push_back({part.name, part.weight, part.bias});
  }
  return set;
}

template <typename Work>
double median_seconds(const Work& work) {
  std::vector<double> readings;
  double total = 0.0;
  while (total < kSeconds || readings.size() < kReadings) {
    const auto start = Clock::now();
    work(readings.size());
    readings.push_back(seconds_since(start));
    total += readings.back();
  }
  std::sort(readings.begin(), readings.end());
  return readings[readings.size() / 2];
}

}  // namespace

CpuLayerTimer::CpuLayerTimer(const ops::CpuOptions& options)
    : activations_(options.activations),
      ops_(options),
      limits_(ops::cpu::measure_machine_limits(ops_.pool())),
      cache_bytes_(core::cache_bytes(core::allowed_cpus(), ops_.pool().size())) {}

std::vector<ops::LinearSet> CpuLayerTimer::prepare(const LayerGroup& group, std::int64_t& bytes) {
  std::vector<ops::LinearSet> sets;
  bytes = 0;
  for (const LayerPlace& place : group.places) {
    const ops::LinearSet& set = sets.emplace_back(set_of(place, static_cast<int>(sets.size())));
    const std::int64_t before = ops_.prepared_bytes();
    ops_.prepare(set);
    bytes += ops_.prepared_bytes() - before + ops_.unprepared_bytes(set);
    if (bytes > kCaches * cache_bytes_) {
      break;
    }
  }
  return sets;
}

KernelTime CpuLayerTimer::time(const LayerGroup& group, std::int64_t tokens) {
  std::int64_t bytes = 0;
  const std::vector<ops::LinearSet> sets = prepare(group, bytes);
  const ops::LinearProblem& problem = group.problem;
  ops::cpu::Matrix x = ops_.matrix(tokens, problem.k);
  core::Random random(1);
  std::generate_n(x.data(), tokens * problem.k,
                  [&] { return static_cast<float>(random.below(2001)) / 1000.0f - 1.0f; });
  ops::cpu::CpuOps::Input input(std::move(x));
  for (const ops::LinearSet& set : sets) {
    ops_.linear(input, set);  // rounds the inputs, and warms up
  }
  KernelTime time;
  time.microseconds =
      1e6 * median_seconds([&](std::size_t i) { ops_.linear(input, sets[i % sets.size()]); });
  time.date = today();
  const bool wide = ops::cpu::takes_wide_codes(activations_, problem.scheme);
  const double products = static_cast<double>(problem.n) * static_cast<double>(problem.k) *
                          static_cast<double>(tokens * (wide ? 2 : 1));
  time.limit_microseconds = 1e6 * products / limits_.multiply_adds_per_second;
  const double by_memory = 1e6 * static_cast<double>(bytes) / static_cast<double>(sets.size()) /
                           limits_.read_bytes_per_second;
  if (bytes > 2 * cache_bytes_ && by_memory > time.limit_microseconds) {
    time.limit_microseconds = by_memory;
    time.limited_by_memory = true;
  }
  for (const ops::LinearSet& set : sets) {
    ops_.release(set);
  }
  return time;
}

}  // namespace nibble::engine
