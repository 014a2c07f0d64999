#include "models/exchange/imports.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/printable.h"

namespace nibble::models {

void Imports::add(const std::string& name, const formats::exchange::ReadLayer& layer) {
  schemes_.emplace(name, layer.weight.scheme);
  add_changes(layer);
}

void Imports::add_table(const std::string& name, const formats::exchange::ReadLayer& table) {
  add_changes(table);
  tables_.push_back(name);
}

void Imports::add_changes(const formats::exchange::ReadLayer& layer) {
  rounded_ += layer.scale_error > 0 ? 1 : 0;
  largest_change_ = std::max(largest_change_, layer.scale_error);
  moved_ += layer.weight_error > 0 ? 1 : 0;
  largest_move_ = std::max(largest_move_, layer.weight_error);
  for (const std::string& remark : layer.remarks) {
    ++remarks_[remark];
  }
}

std::vector<std::string> Imports::remarks() const {
  std::vector<std::string> all;
  if (rounded_ > 0) {
    all.push_back(fmt::format("scales were rounded to float16, by at most {:.2g} % ({} layers)",
                              100 * largest_change_, rounded_));
  }
  if (moved_ > 0) {
    all.push_back(
        fmt::format("offsets became the nearest zero points, which changes weights by at most "
                    "{:.2g} % ({} layers)",
                    100 * largest_move_, moved_));
  }
  for (const std::string& table : tables_) {
    all.push_back(fmt::format("{} is decoded to float16", core::printable(table)));
  }
  for (const auto& [remark, layers] : remarks_) {
    all.push_back(fmt::format("{} ({} layers)", remark, layers));
  }
  return all;
}

}  // namespace nibble::models
