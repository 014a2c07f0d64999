#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "core/threads.h"
#include "formats/format.h"
#include "formats/packed_weight.h"
#include "formats/scheme.h"
#include "formats/stored_parts.h"
#include "measure.h"
#include "ops/cpu/limits/machine_limits.h"
#include "ops/cpu/matrix.h"
#include "ops/cpu/packed/packed_linear.h"
#include "ops/cpu/packed/reference.h"
#include "options.h"

// Times packed linear layers of a 0.85-billion-parameter Llama (hidden 2048, 16 layers, MLP 5632,
// 32 heads, 8 key/value heads, vocabulary 32000), each call on another copy of the weights.
//
//   packed_linear_bench [--threads N] [--schemes a,b] [--tokens 1,4,128] [--shapes qkv,down]
//   [--rounds R] [--cold MIB]
//
// The copies of a layer fill 96 MiB, or --cold: for weights that come from memory, that must be
// more than the last-level cache has.
//
// First line: what the machine does at best, measured here and now. A row's limit is the time of
// its weight bytes at that bandwidth or of its multiply-adds at that rate, whichever is longer.
// "model" rows add the shapes up as often as the model has them: milliseconds for one pass of m
// tokens.
namespace {

using namespace nibble;
using namespace nibble::ops::cpu;
using bench::median;
using bench::now;
using bench::split;

struct Layer {
  const char* name;
  std::int64_t n, k;
  int times;  // in the model
};
constexpr Layer kLayers[] = {{"qkv", 3072, 2048, 16},
                             {"out", 2048, 2048, 16},
                             {"gate|up", 11264, 2048, 16},
                             {"down", 2048, 5632, 16},
                             {"output", 32000, 2048, 1}};
constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

struct Options {
  int threads = 0;
  int rounds = 5;
  std::int64_t cold_mebibytes = 96;
  std::vector<std::string> schemes = {"int4-sym-g32",   "int4-sym-g128", "int4-asym-g128",
                                      "lut4-nf4-g64",   "mxfp4",         "lut4-row-g128",
                                      "int8-sym-row-a8"};
  std::vector<std::string> shapes = {"qkv", "out", "gate|up", "down", "output"};
  std::vector<std::int64_t> tokens = {1, 2, 3, 4, 8, 16, 128, 512};
};

void fill(core::Tensor& tensor, core::Random& random) {
  auto* bytes = reinterpret_cast<std::uint8_t*>(tensor.mutable_raw());
  for (std::int64_t i = 0; i < tensor.bytes(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(random.bits() >> 56);
  }
}

/// What no builder makes: scales that are multiples, and minima.
formats::PackedWeight random_blocks(const formats::Scheme& scheme, std::int64_t n, std::int64_t k,
                                    core::Random& random) {
  formats::PackedWeight weight;
  weight.scheme = scheme;
  weight.n = n;
  weight.k = k;
  for (const formats::StoredPart& part : formats::stored_parts(scheme, n, k)) {
    core::Tensor& tensor = weight.*part.tensor;
    tensor = core::Tensor::zeros(part.dtype, {part.rows, part.columns});
    if (part.dtype == core::DType::kF16) {
      const auto values = tensor.mutable_data<core::Fp16>();
      std::fill(values.begin(), values.end(), core::to_fp16(std::ldexp(1.0f, -10)));
    } else {
      fill(tensor, random);
    }
  }
  return weight;
}

/// Which two of each four weights are stored: each of the six answers as often.
void fill_indices(core::Tensor& indices, core::Random& random) {
  constexpr int kPairs[] = {0x4, 0x8, 0xc, 0x9, 0xd, 0xe};
  for (std::uint8_t& byte : indices.mutable_data<std::uint8_t>()) {
    byte = static_cast<std::uint8_t>(kPairs[random.below(6)] | kPairs[random.below(6)] << 4);
  }
}

/// Random codes under scales that are all alike: the time does not depend on the values.
formats::PackedWeight random_weight(const formats::Scheme& scheme, std::int64_t n, std::int64_t k) {
  core::Random random(static_cast<std::uint64_t>(n + k));
  if (formats::has_minima(scheme) || formats::has_supers(scheme)) {
    return random_blocks(scheme, n, k, random);
  }
  formats::PackedWeightBuilder builder(scheme, n, k);
  const int zero = !formats::has_zeros(scheme) ? 1 << (scheme.code.bits - 1) : 3;
  const std::vector<std::uint8_t> zeros(static_cast<std::size_t>(k),
                                        static_cast<std::uint8_t>(zero));
  for (std::int64_t row = 0; row < n; ++row) {
    for (std::int64_t group = 0; group < formats::groups_per_row(scheme, k); ++group) {
      builder.set_group(row, group, {std::ldexp(1.0f, -10), zero});
    }
    builder.set_codes(row, zeros);
    if (scheme.code.book == formats::Book::kPerRow ||
        (scheme.code.book == formats::Book::kPerMatrix && row == 0)) {
      std::vector<float> book(static_cast<std::size_t>(formats::book_size(scheme)));
      std::generate(book.begin(), book.end(),
                    [&] { return core::to_float(core::to_fp16(random.normal())); });
      builder.set_book(row, book);
    }
  }
  formats::PackedWeight weight = builder.finish();
  fill(weight.codes, random);
  if (formats::keeps_two_of_four(scheme)) {
    fill_indices(weight.indices, random);
  }
  return weight;
}

/// Largest error over what float sums may lose (the tests' rule); above 1 is wrong.
double check(const Variant& variant, const formats::Scheme& scheme, std::int64_t k, std::int64_t m,
             core::ThreadPool& pool) {
  constexpr std::int64_t kRows = 48;
  const formats::PackedWeight weight = random_weight(scheme, kRows, k);
  const PackedLinear linear = PackedLinear::pack(weight, pool);
  const std::int64_t tokens = std::min<std::int64_t>(m, 16);
  core::Random random(1);
  std::vector<float> x(static_cast<std::size_t>(tokens * k));
  std::generate(x.begin(), x.end(), [&] { return random.normal(); });
  QuantizedInput input;
  quantize_input(variant, x.data(), tokens, k, k, linear.needs(), input, pool);
  std::vector<float> y(static_cast<std::size_t>(tokens * kRows), std::nanf(""));
  const PackedLinear* part = &linear;
  packed_linear(variant, {&part, 1}, input, y.data(), kRows, pool);
  const PackedReference reference = packed_linear_reference(weight, input);
  double worst = 0.0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double bound =
        std::ldexp(4.0 * std::sqrt(static_cast<double>(packed_linear_chain(linear))), -24) *
            reference.magnitude[i] +
        std::ldexp(std::fabs(reference.y[i]), -24);
    const double ratio = std::fabs(y[i] - reference.y[i]) / bound;
    worst = std::isnan(ratio) ? INFINITY : std::max(worst, ratio);
  }
  return worst;
}

/// Median seconds of one call with m tokens, quantization of the input included.
double time_layer(const Variant& variant, const std::vector<PackedLinear>& copies, std::int64_t m,
                  int rounds, core::ThreadPool& pool) {
  const PackedLinear& first = copies.front();
  const auto buffers = std::make_shared<BufferPool>();  // as activations of a model lie
  Matrix x(buffers, m, first.k());
  for (std::int64_t i = 0; i < m * first.k(); ++i) {
    x.data()[i] = static_cast<float>(i % 97) - 48.0f;
  }
  Matrix y(buffers, m, first.n());
  QuantizedInput input;
  std::vector<double> seconds;
  for (int round = 0; round < rounds + 1; ++round) {
    const double start = now();
    int calls = 0;
    for (const PackedLinear& copy : copies) {
      quantize_input(variant, x.data(), m, first.k(), first.k(), first.needs(), input, pool);
      const PackedLinear* part = &copy;
      packed_linear(variant, {&part, 1}, input, y.data(), first.n(), pool);
      if (++calls, m >= 64 && calls >= 2) {  // arithmetic, not memory: cold copies do not matter
        break;
      }
    }
    if (round > 0) {  // the first touches pages
      seconds.push_back((now() - start) / calls);
    }
  }
  return median(seconds);
}

/// Whether all results were right.
bool run_scheme(const Variant& variant, const Options& options, const std::string& name,
                const ops::cpu::MachineLimits& limits, core::ThreadPool& pool) {
  bool right = true;
  const formats::Scheme scheme = formats::parse_scheme(name);
  std::vector<double> model(options.tokens.size(), 0.0);
  std::vector<double> model_limit(options.tokens.size(), 0.0);
  for (const Layer& layer : kLayers) {
    if (std::find(options.shapes.begin(), options.shapes.end(), layer.name) ==
        options.shapes.end()) {
      continue;
    }
    const formats::PackedWeight weight = random_weight(scheme, layer.n, layer.k);
    std::vector<PackedLinear> copies;
    std::int64_t bytes = 0;
    while (bytes < options.cold_mebibytes * kMebibyte) {
      copies.push_back(PackedLinear::pack(weight, pool));
      bytes += copies.back().bytes();
    }
    for (std::size_t i = 0; i < options.tokens.size(); ++i) {
      const std::int64_t m = options.tokens[i];
      const double seconds = time_layer(variant, copies, m, options.rounds, pool);
      const auto layer_bytes = static_cast<double>(copies.front().bytes());
      const double products =
          static_cast<double>(layer.n) * static_cast<double>(layer.k) * static_cast<double>(m);
      const double limit = std::max(layer_bytes / limits.read_bytes_per_second,
                                    products / limits.multiply_adds_per_second);
      const double error = check(variant, scheme, layer.k, m, pool);
      std::printf(
          "%-16s %-8s m=%-4lld %10.1f us %7.2f GB/s %8.2f GMAC/s %6.1f %% of the limit  %s\n",
          name.c_str(), layer.name, static_cast<long long>(m), seconds * 1e6,
          layer_bytes / seconds * 1e-9, products / seconds * 1e-9, 100.0 * limit / seconds,
          error <= 1.0 ? "right" : "WRONG");
      std::fflush(stdout);
      right = right && error <= 1.0;
      model[i] += seconds * layer.times;
      model_limit[i] += limit * layer.times;
    }
  }
  for (std::size_t i = 0; i < options.tokens.size(); ++i) {
    std::printf(
        "%-16s model    m=%-4lld %10.2f ms %9.1f tokens/s (linear layers alone) %6.1f %% of the "
        "limit\n",
        name.c_str(), static_cast<long long>(options.tokens[i]), model[i] * 1e3,
        static_cast<double>(options.tokens[i]) / model[i], 100.0 * model_limit[i] / model[i]);
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
      options.cold_mebibytes = bench::positive(value);
    } else if (name == "--schemes") {
      options.schemes = split(value);
    } else if (name == "--shapes") {
      options.shapes = split(value);
    } else if (name == "--tokens") {
      options.tokens = bench::counts(value);
    } else {
      core::fail(
          core::ErrorKind::kUsage,
          "unknown option {}: use --threads, --rounds, --schemes, --shapes, --tokens, --cold",
          name);
    }
  });
  return options;
}

void run(const Options& options) {
  core::ThreadPool pool(options.threads);
  const Variant& variant = active_variant();
  const ops::cpu::MachineLimits limits = ops::cpu::measure_machine_limits(pool);
  std::printf("%s, %d threads: reads %.2f GB/s, multiplies %.1f GMAC/s\n", variant.name,
              pool.size(), limits.read_bytes_per_second * 1e-9,
              limits.multiply_adds_per_second * 1e-9);
  bool right = true;
  for (const std::string& scheme : options.schemes) {
    right = run_scheme(variant, options, scheme, limits, pool) && right;
  }
  core::require(right, core::ErrorKind::kFailed, "some results are wrong");
}

}  // namespace

int main(int argc, char** argv) {
  return nibble::bench::run_program("packed_linear_bench", [&] { run(parse(argc, argv)); });
}
