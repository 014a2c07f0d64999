#include "compress/pipeline/where_it_runs.h"

#include <set>

#include <fmt/ranges.h>

namespace nibble::compress {

void WhereItRuns::add(const std::string& name, const Pass& pass,
                      const std::map<std::string, formats::Scheme>& schemes) {
  std::set<std::string> there;
  std::set<std::string> here;
  for (const auto& [layer, scheme] : schemes) {
    if (formats::has_codes(scheme)) {
      (pass.runs_on_gpu(scheme) ? there : here).insert(formats::to_string(scheme));
    }
  }
  const bool both = !there.empty() && !here.empty();
  const auto named = [&](const std::set<std::string>& in) {
    return both ? fmt::format("{} ({})", name, fmt::join(in, ", ")) : name;
  };
  if (!there.empty()) {
    on_gpu_.push_back(named(there));
  }
  if (!here.empty() || there.empty()) {
    on_cpu_.push_back(named(here));
  }
}

std::string WhereItRuns::line() const {
  const auto listed = [](const std::vector<std::string>& names) {
    return names.empty() ? std::string("nothing") : fmt::format("{}", fmt::join(names, ", "));
  };
  return fmt::format("on the GPU: {}; on the CPU: {}", listed(on_gpu_), listed(on_cpu_));
}

}  // namespace nibble::compress
