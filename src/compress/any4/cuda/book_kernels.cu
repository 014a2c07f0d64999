#include "compress/any4/cuda/book_kernels.h"
#include "compress/coding/cuda/coder.cuh"
#include "device/cuda/blocks.h"
#include "device/cuda/check.h"

namespace nibble::compress::cuda {
namespace {

using device::cuda::blocks_for;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kRefits = 8;  // at the most from one start, as GroupSearch has them
constexpr double kWidest = 1.25;
constexpr double kNarrowest = 0.4;

// What rounding with a scale costs, and the sums that a better scale for the same codes follows
// from.
struct Rounding {
  double loss = 0;
  double cross = 0;   // importance weight value
  double square = 0;  // importance value^2
};

// One group of one row, worked on by a warp. Lane i holds value i of the book and the largest
// weight that does not reach value i + 1.
class GroupOfWarp {
 public:
  __device__ GroupOfWarp(const float* weights, const float* importance, int width,
                         const BookTable& book)
      : weights_(weights), importance_(importance), width_(width) {
    value_ = book.values[lane() % kBookSize];
    const float next = __shfl_down_sync(kAllLanes, value_, 1);
    middle_ = (static_cast<double>(value_) + static_cast<double>(next)) / 2;
  }

  __device__ Rounding round(float scale) const {
    const float limit = limit_for(fabsf(scale));
    Rounding sums;
    for (int first = 0; first < width_; first += kWarp) {
      const int i = first + lane();
      const bool inside = i < width_;
      const float w = inside ? weights_[i] : 0.0f;
      const double h = inside ? static_cast<double>(importance_[i]) : 0.0;
      const float value = __shfl_sync(kAllLanes, value_, rank(scale < 0 ? -w : w, limit));
      const double error = static_cast<double>(w) - static_cast<double>(__fmul_rn(scale, value));
      const auto v = static_cast<double>(value);
      sums.loss += h * error * error;
      sums.cross += h * static_cast<double>(w) * v;
      sums.square += h * v * v;
    }
    return {warp_sum(sums.loss), warp_sum(sums.cross), warp_sum(sums.square)};
  }

  // GroupSearch::descend.
  __device__ void descend(float scale, float& best, double& least) const {
    double last = INFINITY;
    for (int round_number = 0; round_number <= kRefits; ++round_number) {
      const Rounding now = round(scale);
      if (now.loss < least) {
        best = scale;
        least = now.loss;
      }
      if (now.loss >= last) {
        return;
      }
      last = now.loss;
      const double wanted = now.cross / now.square;
      if (!(now.square > 0) || !isfinite(wanted) || wanted * static_cast<double>(scale) <= 0) {
        return;
      }
      const float next = round_scale(wanted);
      if (next == scale) {
        return;
      }
      scale = next;
    }
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kWarp; }

  // The largest float32 weight that is no nearer to the next value of the book.
  __device__ float limit_for(float scale) const {
    const double limit = middle_ * static_cast<double>(scale);
    return lane() < kBookSize - 1 ? __double2float_rd(limit) : INFINITY;
  }

  __device__ int rank(float value, float limit) const {
    int below = 0;
#pragma unroll
    for (int step = kBookSize / 2; step > 0; step /= 2) {
      below += value > __shfl_sync(kAllLanes, limit, below + step - 1) ? step : 0;
    }
    return below;
  }

  const float* weights_;
  const float* importance_;
  int width_;
  float value_;
  double middle_;
};

// Where a warp works: one group of one of the listed rows.
struct Place {
  std::int64_t entry = 0;  // in the list of rows
  std::int64_t row = 0;
  std::int64_t group = 0;
  std::int64_t begin = 0;
  int width = 0;
};

__device__ bool find_place(const BookLayer& layer, const std::int64_t* rows, std::int64_t count,
                           Place& place) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (at >= count * layer.groups) {
    return false;
  }
  place.entry = at / layer.groups;
  place.row = rows == nullptr ? place.entry : rows[place.entry];
  place.group = at % layer.groups;
  place.begin = place.group * layer.group;
  place.width = static_cast<int>(min(layer.group, layer.k - place.begin));
  return true;
}

__device__ GroupOfWarp group_at(const BookLayer& layer, const CoderView& coder,
                                const Place& place) {
  return {layer.weights + place.row * layer.k + place.begin, layer.mean_squares + place.begin,
          place.width, coder.books[coder.book_of_row ? place.entry : 0]};
}

__global__ void __launch_bounds__(kThreads)
    fit_largest_kernel(BookLayer layer, std::int64_t n, int* not_finite) {
  Place place;
  if (!find_place(layer, nullptr, n, place)) {
    return;
  }
  const float* w = layer.weights + place.row * layer.k + place.begin;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float extreme = 0;
  int at = place.width;
  for (int i = lane; i < place.width; i += kWarp) {
    if (!isfinite(w[i])) {
      *not_finite = 1;
    }
    if (fabsf(w[i]) > fabsf(extreme)) {
      extreme = w[i];
      at = i;
    }
  }
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, extreme, distance);
    const int other_at = __shfl_xor_sync(kAllLanes, at, distance);
    if (fabsf(other) > fabsf(extreme) || (fabsf(other) == fabsf(extreme) && other_at < at)) {
      extreme = other;
      at = other_at;
    }
  }
  if (lane == 0) {
    layer.scales[place.row * layer.groups + place.group] = round_scale(extreme);
  }
}

__global__ void __launch_bounds__(kThreads)
    group_losses_kernel(BookLayer layer, CoderView coder, const std::int64_t* rows,
                        std::int64_t count, double* losses) {
  Place place;
  if (!find_place(layer, rows, count, place)) {
    return;
  }
  const GroupOfWarp group = group_at(layer, coder, place);
  const double loss = group.round(layer.scales[place.row * layer.groups + place.group]).loss;
  if (threadIdx.x % kWarp == 0) {
    losses[place.entry * layer.groups + place.group] = loss;
  }
}

// Starts as GroupSearch has them: the scale that is there, round to nearest, and ranges from wide
// to narrow with both signs.
__global__ void __launch_bounds__(kThreads)
    search_scales_kernel(BookLayer layer, CoderView view, const std::int64_t* rows,
                         std::int64_t count, int steps, double* losses) {
  Place place;
  if (!find_place(layer, rows, count, place)) {
    return;
  }
  const GroupOfWarp group = group_at(layer, view, place);
  const Coder coder(view, place.entry);
  float* scale = layer.scales + place.row * layer.groups + place.group;
  const float* w = layer.weights + place.row * layer.k + place.begin;
  float low = INFINITY;
  float high = -INFINITY;
  for (int i = static_cast<int>(threadIdx.x) % kWarp; i < place.width; i += kWarp) {
    low = fminf(low, w[i]);
    high = fmaxf(high, w[i]);
  }
  low = -ops::cuda::warp_max(-low);
  high = ops::cuda::warp_max(high);
  float best = *scale;
  double least = INFINITY;
  group.descend(best, best, least);
  group.descend(coder.of_range(fminf(low, 0.0f), fmaxf(high, 0.0f), true).scale, best, least);
  for (int step = 0; step < steps && least > 0; ++step) {
    const double factor = kWidest - (kWidest - kNarrowest) * step / max(1, steps - 1);
    const float from = static_cast<float>(static_cast<double>(low) * factor);
    const float to = static_cast<float>(static_cast<double>(high) * factor);
    const float start = coder.of_range(fminf(from, 0.0f), fmaxf(to, 0.0f), true).scale;
    group.descend(start, best, least);
    group.descend(-start, best, least);
  }
  if (threadIdx.x % kWarp == 0) {
    *scale = best;
    losses[place.entry * layer.groups + place.group] = least;
  }
}

}  // namespace

void fit_largest(const BookLayer& layer, std::int64_t n, int* not_finite, cudaStream_t stream) {
  fit_largest_kernel<<<blocks_for(n * layer.groups, kWarps), kThreads, 0, stream>>>(layer, n,
                                                                                    not_finite);
  device::cuda::check_launch("fit_largest_kernel");
}

void group_losses(const BookLayer& layer, const CoderView& coder, const std::int64_t* rows,
                  std::int64_t count, double* losses, cudaStream_t stream) {
  group_losses_kernel<<<blocks_for(count * layer.groups, kWarps), kThreads, 0, stream>>>(
      layer, coder, rows, count, losses);
  device::cuda::check_launch("group_losses_kernel");
}

void search_scales(const BookLayer& layer, const CoderView& coder, const std::int64_t* rows,
                   std::int64_t count, int steps, double* losses, cudaStream_t stream) {
  search_scales_kernel<<<blocks_for(count * layer.groups, kWarps), kThreads, 0, stream>>>(
      layer, coder, rows, count, steps, losses);
  device::cuda::check_launch("search_scales_kernel");
}

}  // namespace nibble::compress::cuda
