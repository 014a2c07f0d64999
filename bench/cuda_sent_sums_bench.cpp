// What a sum over two GPUs costs behind the product whose results are added, with the norm that
// reads the sum: made by a kernel, and sent by the product. In recorded graphs; each rank is a
// process of its own:
//
//   mpirun -n 2 build/release/bench/cuda_sent_sums_bench
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <random>
#include <vector>

#include "core/error.h"
#include "device/cuda/check.h"
#include "device/cuda/graph.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "ops/cuda/divided/collectives.h"
#include "ops/cuda/divided/pair_norm.h"
#include "ops/cuda/divided/pair_rows.h"
#include "ops/cuda/divided/pair_sum.h"
#include "ops/cuda/schedules/linear_shape.h"
#include "ops/cuda/schedules/schedules.h"
#include "ranks/join.h"

namespace nibble::ops::cuda {
namespace {

using device::cuda::Buffer;
using device::cuda::Stream;

constexpr int kInGraph = 40;
constexpr int kRepeats = 11;
constexpr int kTokens = 2048;

struct Layer {
  const char* name;
  bool half;  // inputs in float16, weights of 4 bits with a scale for 128; else all of 8 bits
  std::int64_t n;
  std::int64_t k;  // of a rank
};
constexpr Layer kLayers[] = {
    {"7B W8A8 attention output", false, 4096, 2048},  {"7B W8A8 down", false, 4096, 5504},
    {"13B W8A8 attention output", false, 5120, 2560}, {"13B W8A8 down", false, 5120, 6912},
    {"13B W4 attention output", true, 5120, 2560},    {"13B W4 down", true, 5120, 6912}};

// `bytes` of a pattern again and again.
Buffer repeated(const std::vector<std::uint8_t>& pattern, std::int64_t bytes) {
  std::vector<std::uint8_t> all(static_cast<std::size_t>(bytes));
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = pattern[i % pattern.size()];
  }
  Buffer buffer(bytes);
  buffer.upload(all.data(), bytes);
  return buffer;
}

// A unit of random codes and scales of 2^-7.
std::vector<std::uint8_t> unit_pattern(const UnitFormat& format) {
  std::mt19937 random(1);
  std::vector<std::uint8_t> unit(static_cast<std::size_t>(format.bytes()));
  for (std::size_t i = 0; i < unit.size(); ++i) {
    const std::size_t in_tile = i % static_cast<std::size_t>(format.tile_bytes());
    const bool scale = in_tile >= static_cast<std::size_t>(format.code_bytes());
    unit[i] = scale ? (in_tile % 2 == 0 ? 0 : 0x20) : static_cast<std::uint8_t>(random());
  }
  return unit;
}

// Any INT8 but -128, or float16 between 2^-3 and 2 of either sign.
std::vector<std::uint8_t> input_pattern(bool half) {
  std::mt19937 random(2);
  std::vector<std::uint8_t> values(1 << 20);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(random());
    values[i] = half ? (i % 2 == 0 ? byte : static_cast<std::uint8_t>((byte & 0x8f) | 0x30))
                     : static_cast<std::uint8_t>(byte == 0x80 ? 0 : byte);
  }
  return values;
}

// A layer, and what stands behind it.
class Trial {
 public:
  Trial(Collectives& collectives, const Layer& layer)
      : collectives_(collectives),
        layer_(layer),
        shape_{{layer.half ? CodeKind::kInt4 : CodeKind::kInt8, ScaleKind::kF16, 1},
               !layer.half,
               layer.half ? GemmInputs::kHalf : GemmInputs::kInt8,
               0,
               layer.n,
               layer.k},
        weights_(weights_of(shape_)),
        units_(repeated(unit_pattern(shape_.format),
                        unit_grid(layer.n, layer.k).count() * shape_.format.bytes())),
        inputs_(repeated(input_pattern(layer.half), kTokens * layer.k * (layer.half ? 2 : 1))),
        scales_(Buffer::of<float>(std::vector<float>(kTokens, 0.01f))),
        y_(kTokens * layer.n * 4),
        x_(kTokens * layer.n * 4),
        codes_(kTokens * layer.n * 2),
        norm_weight_(
            Buffer::of<float>(std::vector<float>(static_cast<std::size_t>(layer.n), 1.0f))) {
    weights_.units.units = units_.data();
    device::cuda::check(cudaMemset(x_.data(), 0, static_cast<std::size_t>(x_.bytes())),
                        "cudaMemset");
    target_.form = layer.half ? InputForm::kFloat16Tiles : InputForm::kByteTiles;
    target_.values = codes_.as<core::Fp16>();
    target_.codes = codes_.as<std::int8_t>();
    target_.scales = scales_.as<float>();  // of the same inputs, whatever they become
    device::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  void report() {
    const double alone = microseconds([&] { multiply({.y = y(), .stride = layer_.n}); });
    const double norm_alone = microseconds([&] { norm(); });
    const double adds = microseconds([&] {
      multiply({.y = x(), .stride = layer_.n, .adds = true});
      norm();
    });
    const double by_kernel = microseconds([&] {
      multiply({.y = y(), .stride = layer_.n});
      collectives_.add_onto(x(), y(), count(), stream());
      norm();
    });
    const double sent = microseconds([&] {
      multiply({.blocks = collectives_.begin_sum(mine(), kTokens, false, stream())});
      add_begun(collectives_.end_sum(mine()), x(), count(), stream());
      norm();
    });
    const double sent_into_norm = microseconds([&] {
      multiply({.blocks = collectives_.begin_sum(mine(), kTokens, false, stream())});
      add_begun_norm(collectives_.end_sum(mine()), x(), weights_of_norm(), target_, kTokens,
                     layer_.n, stream());
    });
    const std::int64_t codes = codes_.bytes();
    const Collectives::SharedInput memory = collectives_.shared_input(codes + 4 * kTokens);
    const double in_halves = microseconds([&] {
      multiply({.blocks = collectives_.begin_sum(mine(), kTokens, true, stream())});
      add_begun_norm_rows(collectives_.end_sum(mine()), x(), weights_of_norm(),
                          target_in(memory.here), target_in(memory.there),
                          collectives_.own_rows(kTokens), layer_.n, stream());
      collectives_.meet_on(stream());
    });
    if (collectives_.rank() == 0) {
      std::printf("%-26s %8.1f %8.1f %8.1f %8.1f %8.1f %8.1f %8.1f\n", layer_.name, alone,
                  norm_alone, adds, by_kernel, sent, sent_into_norm, in_halves);
      std::fflush(stdout);
    }
  }

 private:
  float* x() const { return x_.as<float>(); }
  float* y() const { return y_.as<float>(); }
  WireBlock* mine() const { return y_.as<WireBlock>(); }
  std::int64_t count() const { return kTokens * layer_.n; }
  cudaStream_t stream() const { return stream_.get(); }
  NormWeights weights_of_norm() const { return {NormKind::kRms, norm_weight_.as<float>()}; }

  // Codes, and scales behind them.
  InputTarget target_in(std::byte* memory) const {
    InputTarget target = target_;
    target.values = reinterpret_cast<core::Fp16*>(memory);
    target.codes = reinterpret_cast<std::int8_t*>(memory);
    target.scales = reinterpret_cast<float*>(memory + codes_.bytes());
    return target;
  }

  void multiply(const GemmOutput& output) const {
    const GemmPlan plan = plan_gemm(weights_, shape_.inputs, kTokens);
    if (layer_.half) {
      return gemm_half(plan, weights_, {inputs_.data(), kTokens, 2 * layer_.k}, output, stream());
    }
    gemm_int8(plan, weights_, nullptr,
              {inputs_.as<std::int8_t>(), kTokens, layer_.k, scales_.as<float>()}, output,
              stream());
  }
  void norm() const { cuda::norm(x(), weights_of_norm(), target_, kTokens, layer_.n, stream()); }

  // A median of what `work` puts on the stream.
  double microseconds(const std::function<void()>& work) {
    work();
    const auto graph = device::cuda::Graph::record(stream(), [&] {
      for (int i = 0; i < kInGraph; ++i) {
        work();
      }
    });
    std::vector<double> times;
    for (int i = 0; i < kRepeats; ++i) {
      const auto start = std::chrono::steady_clock::now();
      graph.launch(stream());
      collectives_.wait(stream());
      const std::chrono::duration<double, std::micro> taken =
          std::chrono::steady_clock::now() - start;
      times.push_back(taken.count() / kInGraph);
    }
    std::nth_element(times.begin(), times.begin() + kRepeats / 2, times.end());
    return times[kRepeats / 2];
  }

  Collectives& collectives_;
  Layer layer_;
  LinearShape shape_;
  GemmWeights weights_;
  Buffer units_;
  Buffer inputs_;
  Buffer scales_;
  Buffer y_;
  Buffer x_;
  Buffer codes_;
  Buffer norm_weight_;
  InputTarget target_;
  Stream stream_;
};

int run() {
  const ranks::RankPlace place = ranks::find_place();
  if (place.size != 2) {
    std::fputs("start a process for each of two GPUs: mpirun -n 2 cuda_sent_sums_bench\n", stderr);
    return 2;
  }
  device::cuda::check(cudaSetDevice(place.local_rank), "cudaSetDevice");
  const std::shared_ptr<ranks::Communicator> communicator = ranks::join(place);
  Collectives collectives(communicator);
  if (place.rank == 0) {
    std::printf(
        "%s; %d tokens; microseconds: the product, the norm, the product that adds and the "
        "norm (one GPU); product, sum, norm; product that sends, sum, norm; product that "
        "sends, sum and norm in one; the same, each rank half of the rows\n",
        collectives.how().c_str(), kTokens);
  }
  for (const Layer& layer : kLayers) {
    Trial(collectives, layer).report();
  }
  communicator->leave(core::ErrorKind::kFailed, "");
  return 0;
}

}  // namespace
}  // namespace nibble::ops::cuda

int main() {
  try {
    return nibble::ops::cuda::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
