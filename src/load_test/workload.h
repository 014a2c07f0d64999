#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace nibble::load_test {

/// One request of a load: when it comes (seconds after the start; 0 in a closed loop) and how many
/// tokens it has.
struct PlannedRequest {
  double arrival = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;
};

/// How long prompts and outputs are.
///
/// atom:  prompt ~ lognormal(sigma 0.8, scale 18) - 1, cut to [1, longest - 2]; the whole ~ uniform
///        in [0, longest), the rest of it the output, at least one token. The distributions of
///        Atom's own evaluation (arXiv 2310.19102, section 5.3), not its random stream.
/// fixed: each prompt_tokens and output_tokens.
struct Workload {
  enum class Lengths { kAtom, kFixed };
  Lengths lengths = Lengths::kFixed;
  std::int64_t requests = 100;
  std::int64_t prompt_tokens = 128;  // kFixed
  std::int64_t output_tokens = 64;   // kFixed
  std::int64_t longest = 2048;       // kAtom: tokens of prompt and output
  double rate = 0;                   // requests per second, arrivals by Poisson; 0: closed loop
  std::uint64_t seed = 0;
};

/// The same for the same workload on every machine.
std::vector<PlannedRequest> plan(const Workload& workload);

}  // namespace nibble::load_test
