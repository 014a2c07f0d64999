#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_type.h"
#include "core/other_work.h"
#include "core/progress.h"
#include "engine/runner.h"
#include "eval/throughput.h"

/// What `nibble bench` says of every model.
namespace nibble::cli {

std::string_view name_of(eval::Limit limit);

/// The line above a table, and the one below where rows are marked as "fits_cache".
void print_limits(const engine::DeviceLimits& limits);
void print_cache_note(const engine::DeviceLimits& limits);

/// Where other work ran beside rows, their speeds are those of a part of the machine.
void say_other_work(const core::OtherWork& most, core::ProgressSink& progress);

template <typename Rows>
core::OtherWork most_other_work(const Rows& rows) {
  core::OtherWork most;
  for (const auto& row : rows) {
    most = core::larger(most, row.other_work);
  }
  return most;
}

template <typename Rows>
bool any_fits_cache(const Rows& rows) {
  for (const auto& row : rows) {
    if (row.fits_cache) {
      return true;
    }
  }
  return false;
}

core::Json json_or_null(const std::optional<double>& value);

/// The JSON object around the rows; `device` is that of --device.
core::Json bench_json(core::Json rows, const std::string& device,
                      const engine::DeviceLimits& limits, int threads);

}  // namespace nibble::cli
