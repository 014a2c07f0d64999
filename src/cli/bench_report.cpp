#include "cli/bench_report.h"

#include <utility>

#include "cli/output.h"
#include "core/byte_size.h"
#include "core/json.h"

namespace nibble::cli {

std::string_view name_of(eval::Limit limit) {
  return limit == eval::Limit::kMemory ? "memory" : "arithmetic";
}

void print_limits(const engine::DeviceLimits& limits) {
  print_result("{}: reads {:.1f} GB/s, {:.0f} G 8-bit multiply-adds/s\n", limits.name,
               limits.read_bytes_per_second / 1e9, limits.multiply_adds_per_second / 1e9);
}

void print_cache_note(const engine::DeviceLimits& limits) {
  print_result(
      "* what a step reads fits the cache ({}), or half of it does: the memory's limit "
      "does not apply\n",
      core::format_byte_size(limits.cache_bytes));
}

void say_other_work(const core::OtherWork& most, core::ProgressSink& progress) {
  if (core::disturbs(most)) {
    progress.message(fmt::format(
        "nibble: other work ran beside this: it kept {} processors busy, and threads waited {} "
        "of their time for one; speeds are those of a busy machine",
        most.busy_cpus ? fmt::format("{:.1f}", *most.busy_cpus) : "an unknown number of",
        most.waited_share ? fmt::format("{:.0f} %", 100 * *most.waited_share)
                          : "an unknown share"));
  }
}

core::Json json_or_null(const std::optional<double>& value) {
  return value ? core::Json(*value) : core::Json();
}

core::Json bench_json(core::Json rows, const std::string& device,
                      const engine::DeviceLimits& limits, int threads) {
  return {{"rows", std::move(rows)},
          {"device", device},
          {"device_name", limits.name},
          {"threads", threads},
          {"read_bytes_per_s", limits.read_bytes_per_second},
          {"multiply_adds_per_s", limits.multiply_adds_per_second},
          {"cache_bytes", limits.cache_bytes}};
}

}  // namespace nibble::cli
