#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/option.h"
#include "core/json_type.h"
#include "eval/encoder_throughput.h"

namespace nibble::cli {

/// "8x32": 8 texts of 32 tokens. Throws kUsage naming the option.
eval::EncoderShape parse_shape(const std::string& word, std::string_view option);

/// --seq and --shapes of `nibble bench`: what encoders compute.
struct EncoderBenchOptions {
  std::vector<std::int64_t> lengths = {128};
  std::vector<std::string> shapes;
  void add(CLI::App& app);
  bool given() const { return lengths_->count() > 0 || shapes_->count() > 0; }

  /// Those of --shapes; else each batch with each length. Throws kUsage.
  std::vector<eval::EncoderShape> all(const std::vector<std::int64_t>& batches) const;

 private:
  Option lengths_;
  Option shapes_;
};

/// The rows as a table, and as what is in "rows" of the JSON object.
void print_encoder_rows(const std::vector<eval::EncoderThroughputRow>& rows);
core::Json encoder_rows_json(const std::vector<eval::EncoderThroughputRow>& rows);

}  // namespace nibble::cli
