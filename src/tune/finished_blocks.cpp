#include "tune/finished_blocks.h"

#include "core/error.h"
#include "core/json.h"
#include "io/atomic_file.h"
#include "io/json_file.h"
#include "tune/loss_curve.h"

namespace nibble::tune {

using core::ErrorKind;
using core::Json;

void write_finished_blocks(const std::filesystem::path& file, std::span<const std::int64_t> steps) {
  io::write_file_atomically(file, Json(steps).dump());
}

std::vector<std::int64_t> read_finished_blocks(const std::filesystem::path& file,
                                               std::size_t blocks) {
  if (!std::filesystem::exists(file)) {
    return {};
  }
  const Json json = io::load_json_file(file);
  core::require(json.is_array() && json.size() <= blocks, ErrorKind::kInvalidModel,
                "{} is no list of at most {} blocks; remove it to train from the start",
                io::shown(file), blocks);
  std::vector<std::int64_t> steps;
  for (const Json& count : json) {
    const std::int64_t least = steps.empty() ? 0 : steps.back();
    core::require(count.is_number_integer() && count >= least && count <= LossCurve::kMostSteps,
                  ErrorKind::kInvalidModel,
                  "{}: {} steps behind block {} are no whole number from {} on; remove the file to "
                  "train from the start",
                  io::shown(file), core::printable_json(count), steps.size() + 1, least);
    steps.push_back(count.get<std::int64_t>());
  }
  return steps;
}

}  // namespace nibble::tune
