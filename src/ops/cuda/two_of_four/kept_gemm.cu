#include "ops/cuda/gemm/launch_wgmma.cuh"
#include "ops/cuda/two_of_four/kept_fragments.cuh"
#include "ops/cuda/two_of_four/kept_launch.h"

namespace nibble::ops::cuda {
namespace {

// Of those tiles that kept_gemm_plans() names.
template <class Codes, Scaling kScaling>
void launch_small(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream) {
  if (plan.token_tile == 64) {
    return launch_wgmma<Codes, 64, 1, 1, kScaling>(plan, arguments, stream);
  }
  launch_wgmma<Codes, 128, 2, 1, kScaling>(plan, arguments, stream);
}

template <class Codes, Scaling kScaling>
void launch(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream) {
  constexpr int kTokens = most_kept_tokens(Codes::kForm);
  static_assert(kTokens > 128);
  if (plan.token_tile < kTokens) {
    return launch_small<Codes, kScaling>(plan, arguments, stream);
  }
  launch_wgmma<Codes, kTokens, 2, 2, kScaling>(plan, arguments, stream);
}

}  // namespace

GemmLauncher kept_gemm_launcher(const KeptForm& form) {
  if (form.integers) {
    if (form.bits == 8) {
      return form.by_row ? launch<KeptIntegerCodes<8, true>, Scaling::kByRow>
                         : launch_small<KeptIntegerCodes<8, false>, Scaling::kByGroup>;
    }
    return form.by_row ? launch<KeptIntegerCodes<4, true>, Scaling::kByRow>
                       : launch_small<KeptIntegerCodes<4, false>, Scaling::kByGroup>;
  }
  if (form.bits == 16) {
    return launch<KeptCodes<16, 0>, Scaling::kNone>;
  }
  const bool one = form.scales == 1;
  if (form.bits == 8) {
    return one ? launch<KeptCodes<8, 1>, Scaling::kNone>
               : launch<KeptCodes<8, kKeptBlocks>, Scaling::kNone>;
  }
  return one ? launch<KeptCodes<4, 1>, Scaling::kNone>
             : launch<KeptCodes<4, kKeptBlocks>, Scaling::kNone>;
}

}  // namespace nibble::ops::cuda
