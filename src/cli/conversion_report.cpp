#include "cli/conversion_report.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "core/json.h"

namespace nibble::cli {
namespace {

constexpr double kPercent = 100;

std::int64_t exact_layers(const models::Conversion& conversion) {
  return std::count_if(conversion.layers.begin(), conversion.layers.end(),
                       [](const auto& layer) { return layer.exact; });
}

std::string change(const models::Conversion& part) {
  if (exact_layers(part) == std::ssize(part.layers)) {
    return "exact";
  }
  const models::ConvertedLayer& worst = *part.worst();
  return fmt::format("added error {:.3g} % (relative, Frobenius), worst {:.3g} % in {}",
                     kPercent * part.relative_error(), kPercent * worst.relative_error(),
                     worst.name);
}

}  // namespace

core::Json conversion_json(std::string_view to, const models::Conversion& conversion) {
  core::Json layers = core::Json::array();
  for (const models::ConvertedLayer& layer : conversion.layers) {
    layers.push_back({{"name", layer.name},
                      {"from", layer.from},
                      {"to", layer.to},
                      {"exact", layer.exact},
                      {"relative_error", layer.relative_error()}});
  }
  return {{"to", to},
          {"layers", layers},
          {"exact_layers", exact_layers(conversion)},
          {"relative_error", conversion.relative_error()},
          {"bits_per_weight", conversion.bits_per_weight()},
          {"remarks", conversion.remarks}};
}

std::string conversion_text(const models::Conversion& conversion) {
  std::map<std::pair<std::string, std::string>, models::Conversion> kinds;
  for (const models::ConvertedLayer& layer : conversion.layers) {
    kinds[{layer.from, layer.to}].layers.push_back(layer);
  }
  std::string text;
  for (const auto& [kind, part] : kinds) {
    text += fmt::format("  {} layers {} -> {}: {}\n", part.layers.size(), kind.first, kind.second,
                        change(part));
  }
  if (!conversion.layers.empty()) {
    text += fmt::format("  {:.3f} bits per weight in these layers\n", conversion.bits_per_weight());
  }
  for (const std::string& remark : conversion.remarks) {
    text += fmt::format("  {}\n", remark);
  }
  return text;
}

}  // namespace nibble::cli
