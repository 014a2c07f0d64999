#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compress/recipe/pass.h"

namespace nibble::compress {

/// What of a job with a GPU runs there and what does not, for its user. Passes are named apart for
/// schemes that differ in this.
class WhereItRuns {
 public:
  void add_to_gpu(const std::string& work) { on_gpu_.push_back(work); }
  void add_to_cpu(const std::string& work) { on_cpu_.push_back(work); }
  void add(const std::string& name, const Pass& pass,
           const std::map<std::string, formats::Scheme>& schemes);

  /// "on the GPU: forward passes and statistics, gptq; on the CPU: search".
  std::string line() const;

 private:
  std::vector<std::string> on_gpu_;
  std::vector<std::string> on_cpu_;
};

}  // namespace nibble::compress
