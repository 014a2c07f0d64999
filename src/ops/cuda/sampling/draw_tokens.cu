#include "device/cuda/check.h"
#include "ops/cuda/sampling/draw_tokens.h"

namespace nibble::ops::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kRows = 4;  // of a block, a warp for each

// Lanes weigh the tokens, one lane adds the weights up in the order of the host.
__global__ void __launch_bounds__(kWarp* kRows)
    draw_kernel(const RankedToken* ranked, unsigned m, int count, const TokenDraw* draws,
                RankedToken* drawn) {
  __shared__ TokenWeight weights[kRows][kMostDrawn];
  __shared__ TokenWeight tempered[kRows][kMostDrawn];
  const unsigned row = blockIdx.x * kRows + threadIdx.y;
  if (row >= m) {
    return;
  }
  const RankedToken* const tokens = ranked + static_cast<std::int64_t>(row) * count;
  const TokenDraw draw = draws[row];
  const int lane = static_cast<int>(threadIdx.x);
  const bool is_number = tokens[0].id >= 0;
  int there = 0;  // tokens that the row has
  for (int first = 0; first < count; first += kWarp) {
    const int i = first + lane;
    const bool has = is_number && i < count && tokens[i].id >= 0;
    there += __popc(__ballot_sync(~0u, has));
    if (has && draw.temperature > 0) {
      weights[threadIdx.y][i] = weight_of(tokens[i].logit, tokens[0].logit);
      tempered[threadIdx.y][i] = weight_of(tokens[i].logit, tokens[0].logit, draw.temperature);
    }
  }
  __syncwarp();
  if (lane == 0) {
    if (draw.top_k > 0 && draw.top_k < there) {
      there = draw.top_k;
    }
    const int place = there == 0 || !(draw.temperature > 0)
                          ? 0
                          : draw_place(weights[threadIdx.y], tempered[threadIdx.y], there, draw);
    drawn[row] = tokens[place];
  }
}

}  // namespace

void draw_tokens(const RankedToken* ranked, std::int64_t m, std::int64_t count,
                 const TokenDraw* draws, RankedToken* drawn, cudaStream_t stream) {
  if (m == 0) {
    return;
  }
  draw_kernel<<<static_cast<unsigned>((m + kRows - 1) / kRows), dim3(kWarp, kRows), 0, stream>>>(
      ranked, static_cast<unsigned>(m), static_cast<int>(count), draws, drawn);
  device::cuda::check_launch("draw_kernel");
}

}  // namespace nibble::ops::cuda
