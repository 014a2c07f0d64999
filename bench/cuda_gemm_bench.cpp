// Times the GEMM kernels for many tokens at once: TOP/s for every format and plan.
//   cuda_gemm_bench [--all] [--large] [FORMAT...]
//     --all times every plan, not only the chosen one; --large takes the largest shapes only
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "device/cuda/event.h"
#include "device/cuda/graph.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "device/cuda_devices.h"
#include "ops/cuda/gemm/gemm.h"

namespace {

using namespace nibble;
using device::cuda::Buffer;
using ops::cuda::CodeKind;
using ops::cuda::GemmInputs;
using ops::cuda::GemmPlan;
using ops::cuda::GemmWeights;
using ops::cuda::UnitFormat;
using ops::cuda::UnitsView;

struct Format {
  const char* name;
  CodeKind codes;
  int groups;  // in a unit
  bool row_scale;
  bool half;
  bool inputs_by_group;  // and with a tail
};

constexpr Format kFormats[] = {
    {"w8a8", CodeKind::kInt8, 1, true, false, false},
    {"w4a8-row", CodeKind::kInt4, 1, true, false, false},
    {"w4a8-g128", CodeKind::kInt4, 1, false, false, false},
    {"w4a8-g128z", CodeKind::kInt4WithZeros, 1, false, false, false},
    {"w4a4-atom", CodeKind::kInt4, 1, false, false, true},
    {"w4a16-g128", CodeKind::kInt4, 1, false, true, false},
    {"w4a16-g32z", CodeKind::kInt4WithZeros, 4, false, true, false},
    {"w8a16", CodeKind::kInt8, 1, true, true, false},
    {"book-g64", CodeKind::kBook, 4, false, true, false},
};

struct Shape {
  int m, n, k;
};
constexpr Shape kShapes[] = {
    {8192, 8192, 8192}, {4096, 8192, 8192}, {1024, 4096, 4096},
    {512, 4096, 4096},  {256, 4096, 4096},  {128, 4096, 4096},
    {65, 4096, 4096},   {512, 28672, 8192}, {128, 28672, 8192},
};
// In which the clocks settle: large products are bound by power.
constexpr double kSecondsOfLarge = 0.1;
constexpr double kSecondsOfSmall = 0.02;
constexpr std::int64_t kRotation = std::int64_t{160}
                                   << 20;  // bytes of weights, beyond the L2 cache

// Random codes, and scales of 2^-7 in every unit.
std::vector<std::uint8_t> random_units(const UnitsView& view) {
  const UnitFormat& format = view.format;
  std::vector<std::uint8_t> units(
      static_cast<std::size_t>(ops::cuda::unit_grid(view.n, view.k).count() * format.bytes()));
  std::uint64_t state = 88172645463325252ull;
  for (std::size_t i = 0; i + 8 <= units.size(); i += 8) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(&units[i], &state, 8);
  }
  const auto tile_bytes = static_cast<std::size_t>(format.tile_bytes());
  const auto codes = static_cast<std::size_t>(format.code_bytes());
  const auto zeros = static_cast<std::size_t>(format.zero_offset());
  for (std::size_t tile = 0; tile < units.size(); tile += tile_bytes) {
    for (std::size_t i = codes; i < tile_bytes; ++i) {
      units[tile + i] = i >= zeros ? 7 : i % 2 == 0 ? 0 : 0x20;
    }
  }
  return units;
}

std::vector<std::uint8_t> random_inputs(std::size_t values, bool half, bool four_bits) {
  std::vector<std::uint8_t> bytes(values * (half ? 2 : 1));
  std::uint64_t state = 1442695040888963407ull;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const auto byte = static_cast<std::uint8_t>(state >> 56);
    if (half) {  // magnitudes from 2^-3 to 2
      bytes[i] =
          i % 2 == 0 ? byte : static_cast<std::uint8_t>((byte & 0x83) | 0x30 | (byte & 0x0c));
    } else {
      bytes[i] = four_bits ? static_cast<std::uint8_t>((byte & 15) - 8) : byte;
    }
  }
  return bytes;
}

class Problem {
 public:
  Problem(const Format& format, const Shape& shape) : format_(format), shape_(shape) {
    weights_.row_scale = format.row_scale;
    weights_.units.format.codes = format.codes;
    weights_.units.format.groups = format.groups;
    weights_.units.n = shape.n;
    weights_.units.k = shape.k - (format.inputs_by_group ? 128 : 0);
    const auto units = random_units(weights_.units);
    const auto bytes = static_cast<std::int64_t>(units.size());
    const int copies = static_cast<int>(std::max<std::int64_t>(1, kRotation / bytes));
    for (int i = 0; i < copies; ++i) {
      units_.push_back(Buffer::of<std::uint8_t>(units));
    }
    tables_ = Buffer::of<std::int8_t>(
        std::vector<std::int8_t>(static_cast<std::size_t>(shape.n + 64) * 16, 77));
    weights_.units.tables = tables_.as<std::int8_t>();
    tail_.row_scale = true;
    tail_.units.format.codes = CodeKind::kInt8;
    tail_.units.n = shape.n;
    tail_.units.k = 128;
    tail_units_ = Buffer::of<std::uint8_t>(random_units(tail_.units));
    tail_.units.units = tail_units_.data();
    inputs_ = Buffer::of<std::uint8_t>(
        random_inputs(static_cast<std::size_t>(shape.m) * static_cast<std::size_t>(shape.k),
                      format.half, format.inputs_by_group));
    scales_ = Buffer::of<float>(std::vector<float>(
        static_cast<std::size_t>(shape.m) * static_cast<std::size_t>(shape.k / 128), 0.01f));
    y_ = Buffer(std::int64_t{4} * shape.m * shape.n);
  }

  void run(const GemmPlan& plan, int turn, cudaStream_t stream) const {
    GemmWeights weights = weights_;
    weights.units.units = units_[static_cast<std::size_t>(turn) % units_.size()].data();
    const ops::cuda::GemmOutput output{.y = y_.as<float>(), .stride = shape_.n};
    if (format_.half) {
      gemm_half(plan, weights,
                {.values = inputs_.data(), .tokens = shape_.m, .row_bytes = 2 * shape_.k}, output,
                stream);
      return;
    }
    gemm_int8(plan, weights, format_.inputs_by_group ? &tail_ : nullptr,
              {.codes = inputs_.as<std::int8_t>(),
               .tokens = shape_.m,
               .row_bytes = shape_.k,
               .scales = scales_.as<float>(),
               .token_stride = format_.inputs_by_group ? shape_.k / 128 : 1,
               .group_stride = format_.inputs_by_group ? 1 : 0},
              output, stream);
  }

  // Seconds of one product: the median of graph launches over a time in which the clocks settle.
  double time(const GemmPlan& plan) const {
    device::cuda::Stream stream;
    const double work = 2.0 * shape_.m * shape_.n * shape_.k;
    const int turns = static_cast<int>(std::clamp(4e12 / work, 4.0, 200.0));
    run(plan, 0, stream.get());
    const auto graph = device::cuda::Graph::record(stream.get(), [&] {
      for (int turn = 0; turn < turns; ++turn) {
        run(plan, turn, stream.get());
      }
    });
    std::vector<double> seconds;
    double total = 0.0;
    while (total < (work > 2e11 ? kSecondsOfLarge : kSecondsOfSmall) || seconds.size() < 4) {
      device::cuda::Event start;
      device::cuda::Event end;
      start.record(stream.get());
      graph.launch(stream.get());
      end.record(stream.get());
      end.synchronize();
      seconds.push_back(end.seconds_since(start) / turns);
      total += seconds.back() * turns;
    }
    seconds.erase(seconds.begin(),
                  seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 3));
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  }

  const GemmWeights& weights() const { return weights_; }
  GemmInputs inputs() const {
    return format_.half              ? GemmInputs::kHalf
           : format_.inputs_by_group ? GemmInputs::kInt8ScaledByGroup
                                     : GemmInputs::kInt8;
  }

 private:
  Format format_;
  Shape shape_;
  GemmWeights weights_;
  GemmWeights tail_;
  std::vector<Buffer> units_;
  Buffer tables_;
  Buffer tail_units_;
  Buffer inputs_;
  Buffer scales_;
  Buffer y_;
};

void print_row(const Format& format, const Shape& shape, const GemmPlan& plan, double seconds,
               const char* remark) {
  std::printf("%-11s m %5d n %5d k %5d  %s %3d x %3d in %d  %9.2f us  %7.1f TOP/s  %s\n",
              format.name, shape.m, shape.n, shape.k, plan.wgmma ? "wgmma" : "mma  ", plan.row_tile,
              plan.token_tile, plan.cluster, seconds * 1e6,
              2e-12 * shape.m * shape.n * shape.k / seconds, remark);
  std::fflush(stdout);
}

bool same(const GemmPlan& a, const GemmPlan& b) {
  return a.wgmma == b.wgmma && a.row_tile == b.row_tile && a.token_tile == b.token_tile &&
         a.cluster == b.cluster;
}

void bench(const Format& format, const Shape& shape, bool all) {
  const Problem problem(format, shape);
  const GemmPlan chosen = ops::cuda::plan_gemm(problem.weights(), problem.inputs(), shape.m);
  if (!all) {
    print_row(format, shape, chosen, problem.time(chosen), "");
    return;
  }
  for (const GemmPlan& plan : ops::cuda::gemm_plans(problem.weights(), problem.inputs())) {
    if (plan.token_tile < 2 * shape.m) {
      print_row(format, shape, plan, problem.time(plan), same(plan, chosen) ? "chosen" : "");
    }
  }
}

}  // namespace

int main(int count, char** words) {
  bool all = false;
  bool large = false;
  std::vector<std::string> names;
  for (int i = 1; i < count; ++i) {
    all = all || std::strcmp(words[i], "--all") == 0;
    large = large || std::strcmp(words[i], "--large") == 0;
    if (words[i][0] != '-') {
      names.emplace_back(words[i]);
    }
  }
  const auto device = device::require_cuda_device();
  std::printf("%s, %d multiprocessors\n", device.name.c_str(), device.multiprocessors);
  for (const Format& format : kFormats) {
    if (!names.empty() && std::find(names.begin(), names.end(), format.name) == names.end()) {
      continue;
    }
    for (const Shape& shape : kShapes) {
      if (!large || shape.m >= 4096) {
        bench(format, shape, all);
      }
    }
  }
}
