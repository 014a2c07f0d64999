#include "load_test/workload.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"

namespace nibble::load_test {
namespace {

PlannedRequest atom_request(core::Random& random, std::int64_t longest) {
  constexpr double kSigma = 0.8;
  constexpr double kScale = 18;
  const double length = kScale * std::exp(kSigma * static_cast<double>(random.normal())) - 1;
  PlannedRequest request;
  request.prompt_tokens = std::clamp<std::int64_t>(static_cast<std::int64_t>(length), 1,
                                                   std::max<std::int64_t>(1, longest - 2));
  request.output_tokens = std::max<std::int64_t>(1, random.below(longest) - request.prompt_tokens);
  return request;
}

}  // namespace

std::vector<PlannedRequest> plan(const Workload& workload) {
  core::Random random(workload.seed);
  std::vector<PlannedRequest> requests;
  double now = 0;
  for (std::int64_t i = 0; i < workload.requests; ++i) {
    PlannedRequest request{0, workload.prompt_tokens, workload.output_tokens};
    if (workload.lengths == Workload::Lengths::kAtom) {
      request = atom_request(random, workload.longest);
    }
    if (workload.rate > 0) {
      request.arrival = now;
      now -= std::log1p(-random.uniform()) / workload.rate;
    }
    requests.push_back(request);
  }
  return requests;
}

}  // namespace nibble::load_test
