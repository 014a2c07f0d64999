#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "float_limits.h"
#include "formats/format.h"
#include "measure.h"
#include "ops/cpu/architecture/architecture.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/dense/dense_linear.h"
#include "ops/cpu/dense/float_tiles.h"
#include "ops/cpu/dense/tiled_linear.h"
#include "ops/cpu/limits/machine_limits.h"
#include "ops/cpu/vector/vector_kernels.h"
#include "options.h"

// Times linear layers whose weights are floats, in the sizes of a 0.85-billion-parameter Llama
// (packed_linear_bench), each call on another copy of the weights. Schemes take turns in each
// round: A, B, A, B.
//
//   float_linear_bench [--threads N] [--schemes f16,f16-g16-bsr] [--tokens 1,4,16] [--shapes qkv]
//   [--rounds R] [--cold MIB] [--kept 0.5]
//
// --kept: the share of the groups of each row that block-sparse rows keep. The copies of a layer
// fill 96 MiB, or --cold: for weights that come from memory, that must be more than the last-level
// cache has. The limit of a row is the time of its stored bytes at the measured bandwidth, or of
// the multiply-adds of what is stored at the measured rate, whichever is longer; "times" is how
// many times as fast as the first scheme it is. Where layers of floats take tile registers, the
// limit of bf16 is that of 3 products of BF16, of f16 that of 5; bf16/float32 and f16/float32 are
// the same weights without tile registers:
//
//   float_linear_bench --schemes bf16/float32,bf16,f16/float32,f16 --tokens 1,4,16,64,256,1024
//
// On a CPU with AMX-BF16 the ways of few tokens, whatever NIBBLE_ISA says (dense/float_tiles.h):
// bf16/steps (tile registers without panels) and bf16/panels; with more than 16 tokens both are
// bf16/panels.
//
//   float_linear_bench --schemes bf16/float32,bf16/steps,bf16/panels --tokens 1,2,4,8
namespace {

using namespace nibble;
using namespace nibble::ops;
using namespace nibble::ops::cpu;

struct Layer {
  const char* name;
  std::int64_t n, k;
};
constexpr Layer kLayers[] = {
    {"qkv", 3072, 2048}, {"out", 2048, 2048}, {"gate|up", 11264, 2048}, {"down", 2048, 5632}};

struct Options {
  int threads = 0;
  int rounds = 9;
  std::int64_t cold_bytes = std::int64_t{96} << 20;
  double kept = 0.5;
  std::vector<std::string> schemes = {"f16", "f16-g16-bsr"};
  std::vector<std::string> shapes = {"qkv", "out", "gate|up", "down"};
  std::vector<std::int64_t> tokens = {1, 2, 4, 8, 16};
};

/// Which groups of a row are kept.
std::vector<bool> kept_groups(std::int64_t groups, double share, core::Random& random) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(groups));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<std::size_t>(random.below(i))]);
  }
  std::vector<bool> kept(order.size());
  const auto count = static_cast<std::size_t>(std::llround(share * static_cast<double>(groups)));
  for (std::size_t i = 0; i < std::max<std::size_t>(count, 1); ++i) {
    kept[static_cast<std::size_t>(order[i])] = true;
  }
  return kept;
}

formats::PackedWeight random_weight(const formats::Scheme& scheme, std::int64_t n, std::int64_t k,
                                    double share) {
  core::Random random(static_cast<std::uint64_t>(n + k));
  const std::int64_t group = formats::is_block_sparse(scheme) ? scheme.scale.group : k;
  std::vector<float> values(static_cast<std::size_t>(n * k));
  for (std::int64_t row = 0; row < n; ++row) {
    const std::vector<bool> kept =
        kept_groups(k / group, formats::is_block_sparse(scheme) ? share : 1.0, random);
    for (std::int64_t i = 0; i < k; ++i) {
      if (kept[static_cast<std::size_t>(i / group)]) {
        values[static_cast<std::size_t>(row * k + i)] = random.normal();
      }
    }
  }
  return formats::round_to_nearest(values, n, k, scheme);
}

/// How dense weights are multiplied, behind the name of their scheme.
enum class Way { kByKernel, kFloat32, kSteps, kPanels };
constexpr std::pair<std::string_view, Way> kWays[] = {
    {"/float32", Way::kFloat32}, {"/steps", Way::kSteps}, {"/panels", Way::kPanels}};

Way way_of(std::string_view name) {
  for (const auto& [end, way] : kWays) {
    if (name.ends_with(end)) {
      return way;
    }
  }
  return Way::kByKernel;
}

/// Tile registers of this machine with limits that take few tokens one way.
FloatTiles tiles_of(Way way) {
  const FloatTiles* const found = architecture_float_tiles();
  core::require(found != nullptr && found->runs_here(), core::ErrorKind::kUsage,
                "this machine lacks {}", found != nullptr ? found->needs : "tile registers");
  FloatTiles tiles = *found;
  tiles.unpanelled_tokens = way == Way::kSteps ? kGroupTokens : 0;
  return tiles;
}

/// Copies of one layer in one scheme, as the engine prepares them.
class Copies {
 public:
  Copies(CpuOps& ops, const std::string& name, const Layer& layer, const Options& options,
         int first_id)
      : ops_(ops), name_(name), way_(way_of(name)) {
    const std::string scheme = way_ == Way::kByKernel ? name : name.substr(0, name.rfind('/'));
    const formats::PackedWeight weight =
        random_weight(formats::parse_scheme(scheme), layer.n, layer.k, options.kept);
    core::require(way_ == Way::kByKernel || formats::is_dense(weight.scheme),
                  core::ErrorKind::kUsage,
                  "{}: only dense weights are multiplied without their kernel", name);
    if (way_ != Way::kByKernel && way_ != Way::kFloat32) {
      core::require(has_float_tiles(weight.scheme.code.dense), core::ErrorKind::kUsage,
                    "{}: tile registers multiply f16 and bf16", name);
      tiles_ = tiles_of(way_);
    }
    bytes_ = formats::stored_bytes(weight);
    const std::int64_t count = options.cold_bytes / bytes_ + 1;
    for (std::int64_t i = 0; i < count; ++i) {
      LinearSet set;
      set.id = first_id + static_cast<int>(i);
      set.parts.push_back({layer.name, copy_of(weight), {}});
      ops.prepare(set);
      sets_.push_back(std::move(set));
    }
  }
  ~Copies() {
    for (const LinearSet& set : sets_) {
      ops_.release(set);
    }
  }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  const std::string& name() const { return name_; }
  std::int64_t bytes() const { return bytes_; }
  /// Products of BF16 for each weight; 0: it does not take tile registers.
  double tile_products() const {
    const formats::Scheme& scheme = sets_.front().parts.front().weight.scheme;
    if (way_ == Way::kFloat32 || !formats::is_dense(scheme) ||
        !has_float_tiles(scheme.code.dense)) {
      return 0;
    }
    return scheme.code.dense == core::DType::kF16 ? 5 : 3;
  }
  int next_id() const { return sets_.back().id + 1; }

  /// Seconds of one call.
  double run(CpuOps::Input& x, std::vector<float>* result = nullptr) {
    const double start = bench::now();
    for (const LinearSet& set : sets_) {
      const Matrix y = multiply(x, set);
      if (result != nullptr) {
        result->assign(y.values().begin(), y.values().end());
        return 0;
      }
    }
    return (bench::now() - start) / static_cast<double>(sets_.size());
  }

  /// The largest error beside sums in double, over what the rounding of sums may lose; above 1 is
  /// wrong.
  double error(CpuOps::Input& x) {
    std::vector<float> y;
    run(x, &y);
    const Matrix& in = x.values();
    const formats::PackedWeight& weight = sets_.front().parts.front().weight;
    std::vector<double> expected(y.size());
    dense_linear_reference(in.data(), in.rows(), in.columns(), weight, expected.data(), weight.n);
    double worst = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      worst = std::max(worst, std::fabs(y[i] - expected[i]));
    }
    return worst / (2e-6 * static_cast<double>(weight.k));
  }

 private:
  // With memory of its own.
  static formats::PackedWeight copy_of(const formats::PackedWeight& weight) {
    formats::PackedWeight copy = weight;
    for (const formats::PartSlot& slot : formats::part_slots()) {
      const core::Tensor& from = weight.*slot.tensor;
      if (!from.empty()) {
        core::Tensor to = core::Tensor::zeros(from.dtype(), from.shape());
        std::copy_n(from.raw(), from.bytes(), to.mutable_raw());
        copy.*slot.tensor = std::move(to);
      }
    }
    return copy;
  }

  Matrix multiply(CpuOps::Input& x, const LinearSet& set) {
    if (way_ == Way::kByKernel) {
      return ops_.linear(x, set);
    }
    const formats::PackedWeight& weight = set.parts.front().weight;
    const Matrix& in = x.values();
    Matrix y = ops_.matrix(in.rows(), weight.n);
    if (way_ == Way::kFloat32) {
      dense_linear(in.data(), in.rows(), in.columns(), weight, y.data(), weight.n, ops_.pool());
    } else {
      tiled_linear(tiles_, in.data(), in.rows(), in.columns(), weight, y.data(), weight.n,
                   ops_.pool());
    }
    return y;
  }

  CpuOps& ops_;
  std::string name_;
  Way way_;
  FloatTiles tiles_;
  std::vector<LinearSet> sets_;
  std::int64_t bytes_ = 0;
};

/// What a layer in all schemes takes for m tokens; whether all results are right.
bool run_tokens(CpuOps& ops, const Layer& layer, std::int64_t m, const Options& options,
                const bench::FloatLimits& float_limits, const MachineLimits& limits,
                std::vector<std::unique_ptr<Copies>>& all) {
  core::Random random(1);
  Matrix values = ops.matrix(m, layer.k);
  std::generate_n(values.data(), m * layer.k, [&] { return random.normal(); });
  CpuOps::Input x(std::move(values));
  std::vector<std::vector<double>> seconds(all.size());
  for (int round = 0; round < options.rounds + 1; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double once = all[i]->run(x);
      if (round > 0) {  // the first touches pages
        seconds[i].push_back(once);
      }
    }
  }
  bool right = true;
  const double first = bench::median(seconds.front());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double middle = bench::median(seconds[i]);
    const auto bytes = static_cast<double>(all[i]->bytes());
    const double products = bytes / 2 * static_cast<double>(m);
    const double tile_rate = float_limits.tile_multiply_adds_per_second;
    const double tile_products = tile_rate > 0 ? all[i]->tile_products() : 0;
    const double arithmetic = tile_products > 0 ? tile_products * products / tile_rate
                                                : products / float_limits.multiply_adds_per_second;
    const double limit = std::max(bytes / limits.read_bytes_per_second, arithmetic);
    const double error = all[i]->error(x);
    std::printf("%-14s %-8s m=%-4lld %10.1f us %7.2f GB/s %6.1f %% of the limit %6.2f times  %s\n",
                all[i]->name().c_str(), layer.name, static_cast<long long>(m), middle * 1e6,
                bytes / middle * 1e-9, 100 * limit / middle, first / middle,
                error <= 1 ? "right" : "WRONG");
    std::fflush(stdout);
    right = right && error <= 1;
  }
  return right;
}

Options parse(int argc, char** argv) {
  Options options;
  bench::for_options(argc, argv, [&](const std::string& name, const std::string& value) {
    if (name == "--threads") {
      options.threads = std::atoi(value.c_str());
    } else if (name == "--rounds") {
      options.rounds = bench::positive(value);
    } else if (name == "--cold") {
      options.cold_bytes = std::int64_t{bench::positive(value)} << 20;
    } else if (name == "--kept") {
      options.kept = std::clamp(std::atof(value.c_str()), 0.0, 1.0);
    } else if (name == "--schemes") {
      options.schemes = bench::split(value);
    } else if (name == "--shapes") {
      options.shapes = bench::split(value);
    } else if (name == "--tokens") {
      options.tokens = bench::counts(value);
    } else {
      core::fail(core::ErrorKind::kUsage,
                 "unknown option {}: use --threads, --rounds, --cold, --kept, --schemes, --shapes, "
                 "--tokens",
                 name);
    }
  });
  return options;
}

void run(const Options& options) {
  CpuOps ops({options.threads});
  const MachineLimits limits = measure_machine_limits(ops.pool());
  const bench::FloatLimits float_limits = bench::measure_float_limits(ops.pool());
  std::printf("%s vectors, %d threads: memory %.1f GB/s, float32 %.1f G multiply-adds/s\n",
              vector_kernels().isa, ops.pool().size(), limits.read_bytes_per_second * 1e-9,
              float_limits.multiply_adds_per_second * 1e-9);
  if (float_limits.tile_multiply_adds_per_second > 0) {
    std::printf("tile registers: %.1f G multiply-adds/s of BF16\n",
                float_limits.tile_multiply_adds_per_second * 1e-9);
  }
  bool right = true;
  for (const Layer& layer : kLayers) {
    if (std::find(options.shapes.begin(), options.shapes.end(), layer.name) ==
        options.shapes.end()) {
      continue;
    }
    std::vector<std::unique_ptr<Copies>> all;
    int next_id = 0;
    for (const std::string& scheme : options.schemes) {
      all.push_back(std::make_unique<Copies>(ops, scheme, layer, options, next_id));
      next_id = all.back()->next_id();
    }
    for (const std::int64_t m : options.tokens) {
      right = run_tokens(ops, layer, m, options, float_limits, limits, all) && right;
    }
  }
  core::require(right, core::ErrorKind::kFailed, "some results are wrong");
}

}  // namespace

int main(int argc, char** argv) {
  return nibble::bench::run_program("float_linear_bench", [&] { run(parse(argc, argv)); });
}
