#include "models/exchange/imports.h"

#include <algorithm>

#include <fmt/format.h>

namespace nibble::models {

void Imports::add(const std::string& name, const formats::exchange::ReadLayer& layer) {
  schemes_.emplace(name, layer.weight.scheme);
  rounded_ += layer.scale_error > 0 ? 1 : 0;
  largest_change_ = std::max(largest_change_, layer.scale_error);
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
  for (const auto& [remark, layers] : remarks_) {
    all.push_back(fmt::format("{} ({} layers)", remark, layers));
  }
  return all;
}

}  // namespace nibble::models
