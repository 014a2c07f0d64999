#include "cli/encoder_bench.h"

#include <charconv>
#include <optional>

#include "cli/bench_report.h"
#include "cli/option.h"
#include "cli/output.h"
#include "core/error.h"
#include "core/json.h"
#include "core/printable.h"

namespace nibble::cli {
namespace {

// A whole number that is all of `word`.
std::optional<std::int64_t> number_of(std::string_view word) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size() ? std::optional(value)
                                                                  : std::nullopt;
}

}  // namespace

eval::EncoderShape parse_shape(const std::string& word, std::string_view option) {
  const std::size_t cross = word.find('x');
  const auto texts = number_of(std::string_view(word).substr(0, cross));
  const auto tokens = cross == std::string::npos
                          ? std::nullopt
                          : number_of(std::string_view(word).substr(cross + 1));
  core::require(texts && tokens, core::ErrorKind::kUsage,
                "{} {}: a step is TEXTSxTOKENS, such as 8x128", option, core::printable(word));
  return {*texts, *tokens};
}

void EncoderBenchOptions::add(CLI::App& app) {
  lengths_ = add_option(app, "--seq", lengths, "Tokens of each text that an encoder reads")
                 ->delimiter(',')
                 ->capture_default_str();
  shapes_ = add_option(app, "--shapes", shapes,
                       "Pairs of --batch and --seq for encoders: 1x32,8x128 (default: all of "
                       "both)")
                ->delimiter(',');
}

std::vector<eval::EncoderShape> EncoderBenchOptions::all(
    const std::vector<std::int64_t>& batches) const {
  std::vector<eval::EncoderShape> result;
  for (const std::string& word : shapes) {
    result.push_back(parse_shape(word, "--shapes"));
  }
  if (result.empty()) {
    for (const std::int64_t batch : batches) {
      for (const std::int64_t length : lengths) {
        result.push_back({batch, length});
      }
    }
  }
  return result;
}

void print_encoder_rows(const std::vector<eval::EncoderThroughputRow>& rows) {
  print_result("{:>5} {:>5} {:>10} {:>10} {:>11} {:>12} {:>10} {:>7}  {}\n", "batch", "seq", "ms",
               "p99 ms", "texts/s", "tokens/s", "limit ms", "share", "limited by");
  for (const eval::EncoderThroughputRow& row : rows) {
    print_result("{:>5} {:>5} {:>10.3f} {:>10.3f} {:>11.1f} {:>12.0f} {:>10.3f} {:>6.1f}%  {}{}\n",
                 row.shape.texts, row.shape.tokens, 1e3 * row.median_seconds, 1e3 * row.p99_seconds,
                 static_cast<double>(row.shape.texts) / row.median_seconds,
                 row.tokens_per_second.median, 1e3 * row.limit_seconds, 100 * row.share_of_limit,
                 name_of(row.limited_by), row.fits_cache ? " *" : "");
  }
}

core::Json encoder_rows_json(const std::vector<eval::EncoderThroughputRow>& rows) {
  core::Json list = core::Json::array();
  for (const eval::EncoderThroughputRow& row : rows) {
    const eval::Speed& speed = row.tokens_per_second;
    list.push_back({{"phase", "encode"},
                    {"batch", row.shape.texts},
                    {"seq", row.shape.tokens},
                    {"tokens", row.shape.texts * row.shape.tokens},
                    {"ms", 1e3 * row.median_seconds},
                    {"p99_ms", 1e3 * row.p99_seconds},
                    {"texts_per_s", static_cast<double>(row.shape.texts) / row.median_seconds},
                    {"tokens_per_s", speed.median},
                    {"tokens_per_s_quartiles", {speed.low, speed.high}},
                    {"repeats", row.repeats},
                    {"weight_bytes", row.weight_bytes},
                    {"limit_ms", 1e3 * row.limit_seconds},
                    {"limited_by", name_of(row.limited_by)},
                    {"fits_cache", row.fits_cache},
                    {"share_of_limit", row.share_of_limit},
                    {"other_busy_cpus", json_or_null(row.other_work.busy_cpus)},
                    {"waited_share", json_or_null(row.other_work.waited_share)}});
  }
  return list;
}

}  // namespace nibble::cli
