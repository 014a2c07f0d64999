#include <algorithm>

#include <cub/device/device_segmented_radix_sort.cuh>
#include <cuda/std/functional>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include "compress/any4/cuda/kmeans_kernels.h"
#include "compress/coding/cuda/coder.cuh"
#include "device/cuda/check.h"

namespace nibble::compress::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarp;
constexpr int kBlocksOfMultiprocessor = 2;
constexpr double kRoundOff = 0x1p-52;
constexpr int kFewChoices = 8;  // places for a cut that one thread looks at alone

__device__ int lane_of_warp() {
  return static_cast<int>(threadIdx.x) % kWarp;
}
__device__ int warp_of_block() {
  return static_cast<int>(threadIdx.x) / kWarp;
}

// One block for each row.
__global__ void __launch_bounds__(kThreads)
    scaled_points_kernel(BookLayer layer, const std::int64_t* rows, bool root, float* values,
                         float* weights, std::int32_t* points_of) {
  __shared__ float largest_of[kWarps];
  __shared__ int left_of[kWarps];
  const std::int64_t row = rows[blockIdx.x];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * layer.k;
  float largest = 0;
  for (std::int64_t j = threadIdx.x; j < layer.k; j += kThreads) {
    const double scale = layer.scales[row * layer.groups + j / layer.group];
    const double importance = layer.mean_squares[j];
    const auto weight =
        static_cast<float>(root ? sqrt(importance) * fabs(scale) : importance * scale * scale);
    values[first + j] =
        static_cast<float>(static_cast<double>(layer.weights[row * layer.k + j]) / scale);
    weights[first + j] = weight;
    largest = fmaxf(largest, weight);
  }
  largest = ops::cuda::warp_max(largest);
  if (lane_of_warp() == 0) {
    largest_of[warp_of_block()] = largest;
  }
  __syncthreads();
  for (int warp = 0; warp < kWarps; ++warp) {
    largest = fmaxf(largest, largest_of[warp]);
  }
  const double least = static_cast<double>(largest) * static_cast<double>(layer.k) * kRoundOff;
  int left = 0;
  for (std::int64_t j = threadIdx.x; j < layer.k; j += kThreads) {
    if (!(largest > 0)) {
      weights[first + j] = 1;
      ++left;
    } else if (static_cast<double>(weights[first + j]) <= least) {
      values[first + j] = INFINITY;
    } else {
      ++left;
    }
  }
  left = __reduce_add_sync(kAllLanes, left);
  if (lane_of_warp() == 0) {
    left_of[warp_of_block()] = left;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    left = 0;
    for (const int each : left_of) {
      left += each;
    }
    points_of[blockIdx.x] = left;
  }
}

// A place for a cut and what it gains; the first of equals is the better one.
struct Choice {
  double gain = -1;
  int cut = 0;
  __device__ void take(const Choice& other) {
    if (other.gain > gain || (other.gain == gain && other.cut < cut)) {
      *this = other;
    }
  }
};

__device__ Choice best_of_warp(Choice best) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    best.take({__shfl_xor_sync(kAllLanes, best.gain, distance),
               __shfl_xor_sync(kAllLanes, best.cut, distance)});
  }
  return best;
}

// The dynamic programme of one row, worked on by a block: KMeans of any4/kmeans.h, whose
// recursion becomes levels: the ends at odd multiples of a stride lie between those of the level
// before, and their cuts between these ends' cuts.
class RowClusters {
 public:
  __device__ RowClusters(std::byte* workspace, std::int64_t most, int clusters)
      : weights_(reinterpret_cast<double*>(workspace)),
        moments_(weights_ + most + 1),
        previous_(moments_ + most + 1),
        current_(previous_ + most + 1),
        cuts_(reinterpret_cast<std::uint16_t*>(current_ + most + 1)),
        clusters_(clusters) {}

  __device__ void run(const float* values, const float* weights, int count, float* book) {
    count_ = count;
    sum_points(values, weights);
    for (int end = static_cast<int>(threadIdx.x); end <= count_; end += kThreads) {
      previous_[end] = gain(0, end);
    }
    __syncthreads();
    for (int layer = 1; layer + 1 < clusters_; ++layer) {
      fill_layer(cuts_of(layer));
    }
    const Choice last = clusters_ > 1 ? best_of_block(count_, 0, count_) : Choice{0, 0};
    if (threadIdx.x == 0) {
      write_book(values, last.cut, book);
    }
    __syncthreads();
  }

 private:
  __device__ std::uint16_t* cuts_of(int layer) const {
    return cuts_ + static_cast<std::int64_t>(layer) * (count_ + 1);
  }

  // One warp replaces what each thread has by the sum of what the threads before it have.
  __device__ static void sum_threads_before(double* weight_of, double* moment_of) {
    constexpr int kEach = kThreads / kWarp;
    const int first = static_cast<int>(threadIdx.x) * kEach;
    double weight_sum = 0;
    double moment_sum = 0;
    for (int i = first; i < first + kEach; ++i) {
      weight_sum += weight_of[i];
      moment_sum += moment_of[i];
    }
    double weight_before = 0;
    double moment_before = 0;
    for (int lane = 0; lane < kWarp; ++lane) {
      const double w = __shfl_sync(kAllLanes, weight_sum, lane);
      const double m = __shfl_sync(kAllLanes, moment_sum, lane);
      weight_before += lane < static_cast<int>(threadIdx.x) ? w : 0.0;
      moment_before += lane < static_cast<int>(threadIdx.x) ? m : 0.0;
    }
    for (int i = first; i < first + kEach; ++i) {
      const double w = weight_of[i];
      const double m = moment_of[i];
      weight_of[i] = weight_before;
      moment_of[i] = moment_before;
      weight_before += w;
      moment_before += m;
    }
  }

  // Prefix sums of weight and weight * (value - middle): each thread adds a run of points.
  __device__ void sum_points(const float* values, const float* weights) {
    __shared__ double weight_of[kThreads];
    __shared__ double moment_of[kThreads];
    middle_ = (static_cast<double>(values[0]) + static_cast<double>(values[count_ - 1])) / 2;
    const int run = (count_ + kThreads - 1) / kThreads;
    const int begin = min(count_, static_cast<int>(threadIdx.x) * run);
    const int end = min(count_, begin + run);
    double weight = 0;
    double moment = 0;
    for (int i = begin; i < end; ++i) {
      weight += static_cast<double>(weights[i]);
      moment += static_cast<double>(weights[i]) * (static_cast<double>(values[i]) - middle_);
    }
    weight_of[threadIdx.x] = weight;
    moment_of[threadIdx.x] = moment;
    __syncthreads();
    if (threadIdx.x < kWarp) {
      sum_threads_before(weight_of, moment_of);
    }
    __syncthreads();
    weight = weight_of[threadIdx.x];
    moment = moment_of[threadIdx.x];
    if (threadIdx.x == 0) {
      weights_[0] = 0;
      moments_[0] = 0;
    }
    for (int i = begin; i < end; ++i) {
      weight += static_cast<double>(weights[i]);
      moment += static_cast<double>(weights[i]) * (static_cast<double>(values[i]) - middle_);
      weights_[i + 1] = weight;
      moments_[i + 1] = moment;
    }
    __syncthreads();
  }

  __device__ double gain(int begin, int end) const {
    const double weight = weights_[end] - weights_[begin];
    const double moment = moments_[end] - moments_[begin];
    return weight > 0 ? moment * moment / weight : 0.0;
  }

  __device__ Choice choice(int begin, int end) const {
    return {previous_[begin] + gain(begin, end), begin};
  }

  __device__ Choice best_of_thread(int end, int first, int last) const {
    Choice best{-1, first};
    for (int begin = first; begin <= min(last, end); ++begin) {
      best.take(choice(begin, end));
    }
    return best;
  }

  __device__ Choice best_of_lanes(int end, int first, int last) const {
    Choice best{-1, first};
    for (int begin = first + lane_of_warp(); begin <= min(last, end); begin += kWarp) {
      best.take(choice(begin, end));
    }
    return best_of_warp(best);
  }

  __device__ Choice best_of_block(int end, int first, int last) {
    __shared__ Choice of_warp[kWarps];
    Choice best{-1, first};
    for (int begin = first + static_cast<int>(threadIdx.x); begin <= min(last, end);
         begin += kThreads) {
      best.take(choice(begin, end));
    }
    best = best_of_warp(best);
    if (lane_of_warp() == 0) {
      of_warp[warp_of_block()] = best;
    }
    __syncthreads();
    for (int warp = 0; warp < kWarps; ++warp) {
      best.take(of_warp[warp]);
    }
    __syncthreads();
    return best;
  }

  __device__ void store(int end, const Choice& best, std::uint16_t* cuts) {
    current_[end] = best.gain;
    cuts[end] = static_cast<std::uint16_t>(best.cut);
  }

  __device__ void fill_layer(std::uint16_t* cuts) {
    int stride = 1;
    while (2 * stride <= count_) {
      stride *= 2;
    }
    if (threadIdx.x == 0) {
      store(0, best_of_thread(0, 0, 0), cuts);
    }
    const Choice top = best_of_block(stride, 0, count_);
    if (threadIdx.x == 0) {
      store(stride, top, cuts);
    }
    __syncthreads();
    for (stride /= 2; stride > 0; stride /= 2) {
      fill_level(stride, cuts);
      __syncthreads();
    }
    double* const filled = current_;
    current_ = previous_;
    previous_ = filled;
  }

  // The ends stride, 3 stride, 5 stride, ...
  __device__ void fill_level(int stride, std::uint16_t* cuts) {
    const int ends = (count_ / stride + 1) / 2;
    const auto first = [&](int end) { return static_cast<int>(cuts[end - stride]); };
    const auto last = [&](int end) {
      return end + stride <= count_ ? static_cast<int>(cuts[end + stride]) : count_;
    };
    if (ends < kWarps) {
      for (int i = 0; i < ends; ++i) {
        const int end = (2 * i + 1) * stride;
        const Choice best = best_of_block(end, first(end), last(end));
        if (threadIdx.x == 0) {
          store(end, best, cuts);
        }
      }
    } else if (count_ > kFewChoices * ends) {
      for (int i = warp_of_block(); i < ends; i += kWarps) {
        const int end = (2 * i + 1) * stride;
        const Choice best = best_of_lanes(end, first(end), last(end));
        if (lane_of_warp() == 0) {
          store(end, best, cuts);
        }
      }
    } else {
      for (int i = static_cast<int>(threadIdx.x); i < ends; i += kThreads) {
        const int end = (2 * i + 1) * stride;
        store(end, best_of_thread(end, first(end), last(end)), cuts);
      }
    }
  }

  __device__ void write_book(const float* values, int cut, float* book) const {
    int end = count_;
    bool zero = true;
    for (int layer = clusters_ - 1; layer >= 0; --layer) {
      const int begin = layer == clusters_ - 1 ? cut
                        : layer == 0           ? 0
                                               : static_cast<int>(cuts_of(layer)[end]);
      const double weight = weights_[end] - weights_[begin];
      // An empty cluster takes the place of the point it stands before.
      const double centre = weight > 0 ? middle_ + (moments_[end] - moments_[begin]) / weight
                                       : static_cast<double>(values[min(begin, count_ - 1)]);
      book[layer] = static_cast<float>(centre);
      zero = zero && book[layer] == 0;
      end = begin;
    }
    if (zero) {
      book[clusters_ - 1] = 1;  // weights that are all zero leave the book without a unit
    }
  }

  double* weights_;
  double* moments_;
  double* previous_;  // best gain of one cluster less, by end
  double* current_;
  std::uint16_t* cuts_;  // [clusters, points + 1]
  int clusters_;
  int count_ = 0;
  double middle_ = 0;
};

__global__ void __launch_bounds__(kThreads, kBlocksOfMultiprocessor)
    kmeans_kernel(const float* values, const float* weights, const std::int32_t* points_of,
                  std::int64_t count, std::int64_t k, int clusters, std::byte* workspace,
                  std::int64_t block_bytes, float* books) {
  for (std::int64_t row = blockIdx.x; row < count; row += gridDim.x) {
    RowClusters(workspace + blockIdx.x * block_bytes, k, clusters)
        .run(values + row * k, weights + row * k, points_of[row], books + row * clusters);
  }
}

struct RowBegin {
  std::int64_t k;
  __host__ __device__ std::int64_t operator()(std::int64_t row) const { return row * k; }
};

}  // namespace

void scaled_points(const BookLayer& layer, const std::int64_t* rows, std::int64_t count, bool root,
                   float* values, float* weights, std::int32_t* points_of, cudaStream_t stream) {
  scaled_points_kernel<<<static_cast<unsigned>(count), kThreads, 0, stream>>>(
      layer, rows, root, values, weights, points_of);
  device::cuda::check_launch("scaled_points_kernel");
}

void sort_points(const float* values, const float* weights, float* sorted_values,
                 float* sorted_weights, std::int64_t count, std::int64_t k, void* workspace,
                 std::size_t& workspace_bytes, cudaStream_t stream) {
  const auto begin =
      thrust::make_transform_iterator(thrust::make_counting_iterator(std::int64_t{0}), RowBegin{k});
  device::cuda::check(cub::DeviceSegmentedRadixSort::SortPairs(
                          workspace, workspace_bytes, values, sorted_values, weights,
                          sorted_weights, count * k, count, begin, begin + 1, 0, 32, stream),
                      "cub::DeviceSegmentedRadixSort::SortPairs");
}

std::int64_t kmeans_blocks(std::int64_t rows, int multiprocessors) {
  return std::min<std::int64_t>(rows, std::int64_t{kBlocksOfMultiprocessor} * multiprocessors);
}

std::int64_t kmeans_block_bytes(std::int64_t k, int clusters) {
  constexpr std::int64_t kLine = 256;
  const std::int64_t bytes = (k + 1) * (4 * 8 + 2 * static_cast<std::int64_t>(clusters));
  return (bytes + kLine - 1) / kLine * kLine;
}

void kmeans(const float* values, const float* weights, const std::int32_t* points_of,
            std::int64_t count, std::int64_t k, int clusters, std::byte* workspace,
            std::int64_t blocks, float* books, cudaStream_t stream) {
  kmeans_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      values, weights, points_of, count, k, clusters, workspace, kmeans_block_bytes(k, clusters),
      books);
  device::cuda::check_launch("kmeans_kernel");
}

}  // namespace nibble::compress::cuda
