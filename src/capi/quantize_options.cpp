#include "capi/quantize_options.h"

#include <memory>
#include <utility>

#include "capi/inputs.h"
#include "capi/options_struct.h"
#include "characters/utf8.h"
#include "compress/recipe/part_words.h"
#include "core/error.h"
#include "formats/scheme.h"
#include "io/text_file.h"

namespace nibble::capi {
namespace {

using core::ErrorKind;

constexpr std::int64_t kMostTextBytes = std::int64_t{1} << 32;

compress::CalibrationText read_calibration(const char* file) {
  require_given(file, "calibration_files");
  std::string text = io::read_named_text(file, kMostTextBytes);
  characters::require_utf8(text, io::shown_text(file));
  core::require(!text.empty(), ErrorKind::kUsage, "{} holds no text",
                core::lazily([&] { return io::shown_text(file); }));
  return std::make_shared<const std::string>(std::move(text));
}

std::int64_t not_negative(std::int64_t value, const char* name) {
  core::require(value >= 0, ErrorKind::kUsage, "{} is {}, must not be negative", name, value);
  return value;
}

}  // namespace

nibble_quantize_options default_quantize_options() {
  return {};
}

compress::PipelineOptions pipeline_of(const nibble_quantize_options& options) {
  compress::PipelineOptions pipeline;
  pipeline.place = device::parse_place(options.device == nullptr ? "cpu" : options.device);
  pipeline.threads = checked_threads(options.threads);
  pipeline.memory = not_negative(options.memory, "memory");
  core::require(!pipeline.place.on_gpu() || pipeline.memory == 0, ErrorKind::kUsage,
                "memory is for the device cpu; on a GPU take fewer samples or a shorter seq_len");
  compress::CalibrationOptions& calibration = pipeline.calibration;
  if (not_negative(options.samples, "samples") > 0) {
    calibration.samples = options.samples;
  }
  if (not_negative(options.seq_len, "seq_len") > 0) {
    calibration.seq_len = options.seq_len;
  }
  calibration.seed = options.seed;
  core::require(options.calibration_count == 0 || options.calibration_files != nullptr,
                ErrorKind::kUsage, "calibration_files is NULL, and calibration_count is {}",
                options.calibration_count);
  for (std::size_t i = 0; i < options.calibration_count; ++i) {
    calibration.texts.push_back(read_calibration(options.calibration_files[i]));
  }
  if (options.adapter != nullptr) {
    pipeline.adapter =
        std::make_shared<models::LoraAdapter>(models::LoraAdapter::open(options.adapter));
  }
  return pipeline;
}

compress::Recipe recipe_of(const char* name, const nibble_quantize_options& options) {
  require_given(name, "recipe");
  compress::Recipe recipe = compress::find_recipe(name);
  if (options.parts != nullptr) {
    const models::PartSchemes parts = compress::parse_part_schemes(options.parts, recipe);
    recipe = compress::with_parts(std::move(recipe), parts);
  }
  if (options.output_scheme != nullptr) {
    recipe = compress::with_output(std::move(recipe), formats::parse_scheme(options.output_scheme));
  }
  core::require(options.target_bits == 0 || options.fit_bytes == 0, ErrorKind::kUsage,
                "target_bits and fit_bytes exclude each other");
  if (options.target_bits != 0 || options.fit_bytes != 0) {
    recipe = compress::with_target(std::move(recipe), {options.target_bits, options.fit_bytes});
  }
  return recipe;
}

}  // namespace nibble::capi

extern "C" void nibble_quantize_options_init(nibble_quantize_options* options, size_t struct_size) {
  nibble::capi::fill(options, struct_size, nibble::capi::default_quantize_options());
}
