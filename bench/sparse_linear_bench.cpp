#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "core/threads.h"
#include "formats/format.h"
#include "formats/row_unit.h"
#include "measure.h"
#include "ops/cpu/limits/machine_limits.h"
#include "ops/cpu/matrix.h"
#include "ops/cpu/packed/packed_linear.h"
#include "ops/cpu/sparse/sparse_linear.h"
#include "options.h"

// Times block-sparse rows (formats/block_sparse.h) beside a dense layer on a CPU, in turns, each
// call on another copy of the weights.
//
//   sparse_linear_bench [--threads N] [--schemes a,b] [--dense SCHEME] [--kept SHARE]
//   [--tokens 1,4,64] [--shapes 11264x2048] [--rounds R] [--cold MIB]
//
// The copies of a layer fill 192 MiB, or --cold: for weights that come from memory, that must be
// more than the last-level cache has. A row says what share of the memory's bandwidth, measured
// first, the weights are read with, and how many times as fast as the dense layer they are.
// Results are checked against the reference kernel.
namespace {

using namespace nibble;
using namespace nibble::ops::cpu;
using bench::median;
using bench::now;

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

struct Shape {
  std::int64_t n, k;
};

struct Options {
  int threads = 0;
  int rounds = 5;
  double kept = 0.5;
  std::int64_t cold_mebibytes = 192;
  std::string dense = "int4-sym-g128";
  std::vector<std::string> schemes = {"int4-asym-g16-bsr"};
  std::vector<Shape> shapes = {{3072, 2048}, {2048, 2048}, {11264, 2048}, {2048, 5632}};
  std::vector<std::int64_t> tokens = {1, 2, 4, 8, 64};
};

/// Values as a learned book may hold them, none of them 0.
std::vector<float> book_values(const formats::Scheme& scheme) {
  std::vector<float> values(static_cast<std::size_t>(formats::book_size(scheme)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(2 * i + 1) / static_cast<float>(values.size()) - 1;
  }
  return values;
}

/// Random codes. Of each row, or tile of rows, the same number of groups is kept, where the scheme
/// leaves some out.
formats::PackedWeight random_weight(const std::string& text, const Shape& shape, double kept) {
  const formats::Scheme scheme = formats::parse_scheme(text);
  core::Random random(static_cast<std::uint64_t>(shape.n + shape.k));
  formats::PackedWeightBuilder builder(scheme, shape.n, shape.k);
  const std::int64_t groups = formats::groups_per_row(scheme, shape.k);
  const std::int64_t wanted =
      formats::is_block_sparse(scheme) ? std::llround(kept * static_cast<double>(groups)) : groups;
  constexpr int kZero = 3;
  const int zero = formats::has_zeros(scheme) ? kZero : 1 << (scheme.code.bits - 1);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(shape.k));
  std::vector<bool> kept_groups(static_cast<std::size_t>(groups));
  const bool has_units = scheme.scale.type == formats::ScaleType::kUnits;
  const std::uint8_t unit = formats::unit_for(std::ldexp(1.0, -10));
  const float scale = has_units ? 32.0f * formats::unit_value(unit) : std::ldexp(1.0f, -10);
  for (std::int64_t row = 0; row < shape.n; ++row) {
    if (has_units) {
      builder.set_unit(row, unit);
    }
    if (formats::has_learned_book(scheme) &&
        (row == 0 || scheme.code.book == formats::Book::kPerRow)) {
      builder.set_book(row, book_values(scheme));
    }
    std::int64_t left = wanted;
    for (std::int64_t g = 0; g < groups; ++g) {
      if (row % formats::pattern_rows(scheme) == 0) {
        kept_groups[static_cast<std::size_t>(g)] = random.below(groups - g) < left;
        left -= kept_groups[static_cast<std::size_t>(g)] ? 1 : 0;
      }
      const bool is_pruned = !kept_groups[static_cast<std::size_t>(g)];
      builder.set_group(row, g, {is_pruned && formats::has_book(scheme) ? 0.0f : scale, zero});
      for (std::int64_t i = g * shape.k / groups; i < (g + 1) * shape.k / groups; ++i) {
        codes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(
            is_pruned ? std::int64_t{zero} : random.below(std::int64_t{1} << scheme.code.bits));
      }
    }
    builder.set_codes(row, codes);
  }
  return builder.finish();
}

/// Copies of one layer that fill no cache, and what multiplies them.
class Copies {
 public:
  virtual ~Copies() = default;
  virtual std::int64_t bytes() const = 0;  // of one
  virtual std::size_t count() const = 0;
  virtual const InputNeeds& needs() const = 0;
  virtual void multiply(std::size_t copy, const QuantizedInput& input, float* y) = 0;
};

class DenseCopies final : public Copies {
 public:
  DenseCopies(const formats::PackedWeight& weight, std::int64_t cold, core::ThreadPool& pool)
      : pool_(pool) {
    do {
      copies_.push_back(PackedLinear::pack(weight, pool));
    } while (static_cast<std::int64_t>(copies_.size()) * bytes() < cold);
    needs_ = copies_.front().needs();
  }
  std::int64_t bytes() const override { return copies_.front().bytes(); }
  std::size_t count() const override { return copies_.size(); }
  const InputNeeds& needs() const override { return needs_; }
  void multiply(std::size_t copy, const QuantizedInput& input, float* y) override {
    const PackedLinear* const part = &copies_[copy];
    packed_linear({&part, 1}, input, y, part->n(), pool_);
  }

 private:
  core::ThreadPool& pool_;
  InputNeeds needs_;
  std::vector<PackedLinear> copies_;
};

/// The fastest kernel that runs here.
const SparseKernel& fastest_kernel() {
  const SparseKernel* fastest = nullptr;
  for (const SparseKernel& kernel : sparse_kernels()) {
    if (kernel.runs_here()) {
      fastest = &kernel;
    }
  }
  return *fastest;
}

class SparseCopies final : public Copies {
 public:
  SparseCopies(const formats::PackedWeight& weight, std::int64_t cold, core::ThreadPool& pool)
      : pool_(pool), kernel_(fastest_kernel()), needs_(sparse_needs(weight)) {
    do {
      copies_.push_back(SparseStreams::pack(weight, pool));
    } while (static_cast<std::int64_t>(copies_.size()) * bytes() < cold);
  }
  std::int64_t bytes() const override { return copies_.front().bytes(); }
  std::size_t count() const override { return copies_.size(); }
  const InputNeeds& needs() const override { return needs_; }
  void multiply(std::size_t copy, const QuantizedInput& input, float* y) override {
    multiply(kernel_, copy, input, y);
  }
  /// Whether the kernel gives what the reference does.
  bool is_right(const QuantizedInput& input) {
    const auto size = static_cast<std::size_t>(input.m() * copies_.front().n());
    std::vector<float> y(size, std::nanf(""));
    std::vector<float> wanted(size);
    multiply(kernel_, 0, input, y.data());
    multiply(scalar_sparse_kernel(), 0, input, wanted.data());
    return y == wanted;
  }
  const char* kernel() const { return kernel_.name; }

 private:
  void multiply(const SparseKernel& kernel, std::size_t copy, const QuantizedInput& input,
                float* y) {
    const SparseStreams* const part = &copies_[copy];
    sparse_linear(kernel, {&part, 1}, input, y, part->n(), pool_);
  }

  core::ThreadPool& pool_;
  const SparseKernel& kernel_;
  InputNeeds needs_;
  std::vector<SparseStreams> copies_;
};

void fill(Matrix& x) {
  core::Random random(1);
  std::generate_n(x.data(), x.rows() * x.columns(), [&] { return random.normal(); });
}

/// Seconds of one call, rounding of the input included.
double time_once(Copies& copies, const Matrix& x, Matrix& y, core::ThreadPool& pool) {
  constexpr std::int64_t kManyTokens = 64;  // for which cold copies do not matter
  const std::size_t calls = x.rows() < kManyTokens ? copies.count() : 2;
  QuantizedInput input;
  const double start = now();
  for (std::size_t call = 0; call < calls; ++call) {
    quantize_input(x.data(), x.rows(), x.columns(), x.columns(), copies.needs(), input, pool);
    copies.multiply(call % copies.count(), input, y.data());
  }
  return (now() - start) / static_cast<double>(calls);
}

/// Whether all results were right.
bool run_shape(const Options& options, const Shape& shape, const MachineLimits& limits,
               core::ThreadPool& pool) {
  const std::int64_t cold = options.cold_mebibytes * kMebibyte;
  DenseCopies dense(random_weight(options.dense, shape, 1.0), cold, pool);
  bool right = true;
  for (const std::string& scheme : options.schemes) {
    SparseCopies sparse(random_weight(scheme, shape, options.kept), cold, pool);
    for (const std::int64_t m : options.tokens) {
      const auto buffers = std::make_shared<BufferPool>();
      Matrix x(buffers, m, shape.k);
      Matrix y(buffers, m, shape.n);
      fill(x);
      std::vector<double> seconds[2];
      for (int round = 0; round <= options.rounds; ++round) {
        const double first = time_once(dense, x, y, pool);
        const double second = time_once(sparse, x, y, pool);
        if (round > 0) {  // the first touches pages
          seconds[0].push_back(first);
          seconds[1].push_back(second);
        }
      }
      QuantizedInput input;
      quantize_input(x.data(), std::min<std::int64_t>(m, 5), shape.k, shape.k, sparse.needs(),
                     input, pool);
      const bool is_right = sparse.is_right(input);
      const double dense_time = median(seconds[0]);
      const double time = median(seconds[1]);
      std::printf(
          "%-22s %6lld x %-6lld m=%-4lld %s %9.1f us, dense %9.1f: %5.2f times (bytes %5.2f), "
          "%5.1f %% of the bandwidth  %s\n",
          scheme.c_str(), static_cast<long long>(shape.n), static_cast<long long>(shape.k),
          static_cast<long long>(m), sparse.kernel(), time * 1e6, dense_time * 1e6,
          dense_time / time,
          static_cast<double>(dense.bytes()) / static_cast<double>(sparse.bytes()),
          100.0 * static_cast<double>(sparse.bytes()) / time / limits.read_bytes_per_second,
          is_right ? "right" : "WRONG");
      std::fflush(stdout);
      right = right && is_right;
    }
  }
  return right;
}

Shape parse_shape(const std::string& text) {
  const std::size_t cross = text.find('x');
  core::require(cross != std::string::npos, core::ErrorKind::kUsage,
                "shape '{}' is not like 2048x5632", text);
  return {std::max(1, std::atoi(text.c_str())), std::max(64, std::atoi(text.c_str() + cross + 1))};
}

Options parse(int argc, char** argv) {
  Options options;
  bench::for_options(argc, argv, [&](const std::string& name, const std::string& value) {
    if (name == "--threads") {
      options.threads = std::atoi(value.c_str());
    } else if (name == "--rounds") {
      options.rounds = bench::positive(value);
    } else if (name == "--cold") {
      options.cold_mebibytes = bench::positive(value);
    } else if (name == "--kept") {
      options.kept = std::clamp(std::atof(value.c_str()), 0.01, 1.0);
    } else if (name == "--dense") {
      options.dense = value;
    } else if (name == "--schemes") {
      options.schemes = bench::split(value);
    } else if (name == "--shapes") {
      options.shapes.clear();
      for (const std::string& part : bench::split(value)) {
        options.shapes.push_back(parse_shape(part));
      }
    } else if (name == "--tokens") {
      options.tokens = bench::counts(value);
    } else {
      core::fail(core::ErrorKind::kUsage,
                 "unknown option {}: use --threads, --rounds, --schemes, --dense, --kept, "
                 "--shapes, --tokens, --cold",
                 name);
    }
  });
  return options;
}

void run(const Options& options) {
  core::ThreadPool pool(options.threads);
  const MachineLimits limits = measure_machine_limits(pool);
  std::printf("%d threads read %.2f GB/s\n", pool.size(), limits.read_bytes_per_second * 1e-9);
  bool right = true;
  for (const Shape& shape : options.shapes) {
    right = run_shape(options, shape, limits, pool) && right;
  }
  core::require(right, core::ErrorKind::kFailed, "some results are wrong");
}

}  // namespace

int main(int argc, char** argv) {
  return nibble::bench::run_program("sparse_linear_bench", [&] { run(parse(argc, argv)); });
}
