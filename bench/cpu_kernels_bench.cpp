#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "core/threads.h"
#include "engine/sampler.h"
#include "float_limits.h"
#include "formats/hadamard.h"
#include "formats/scheme.h"
#include "measure.h"
#include "ops/cpu/attention/attention.h"
#include "ops/cpu/attention/rope.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/limits/machine_limits.h"
#include "ops/cpu/packed/packed_linear.h"
#include "ops/cpu/vector/vector_kernels.h"
#include "options.h"

// Times every CPU kernel of a forward pass but the packed linear layers (packed_linear_bench), in
// the sizes of a 0.85-billion-parameter Llama (hidden 2048, MLP 5632, 32 heads of 64 over 8
// key/value heads, vocabulary 32000), as decoding (1 token) and prefill (512 tokens) call them.
//
//   cpu_kernels_bench [--threads N] [--rounds R] [--cold MIB] [--kernels norm,attention]
//
// Each row declares bytes (read and written once) and operations (a multiply-add is two; exp, a
// division and a comparison are one each). Its limit is the longer of the times that these take:
// bytes at the measured rate of the memory (rows marked "memory", which find nothing in the caches
// when --cold is more than they hold) or of the L2 cache (rows marked "cache"), operations at the
// measured rate of float32 multiply-adds.
namespace {

using namespace nibble;
using namespace nibble::ops;
using namespace nibble::ops::cpu;

constexpr std::int64_t kHidden = 2048;
constexpr std::int64_t kMlp = 5632;
constexpr std::int64_t kVocabulary = 32000;
constexpr std::int64_t kPrompt = 512;
constexpr std::int64_t kBatches[] = {1, kPrompt};
constexpr double kFloat = sizeof(float);

struct Options {
  int threads = 0;
  int rounds = 9;
  std::int64_t cold_bytes = std::int64_t{96} << 20;
  std::vector<std::string> kernels;  // empty: all
};

struct Work {
  double bytes = 0;
  double operations = 0;
  bool cold = false;
};

struct Heads {
  std::int64_t heads, kv_heads, dim;
};

const LinearSet kNoLayers;

class Bench {
 public:
  explicit Bench(Options options)
      : options_(std::move(options)),
        ops_({options_.threads}),
        limits_(ops::cpu::measure_machine_limits(ops_.pool())),
        float_limits_(bench::measure_float_limits(ops_.pool())) {
    std::printf(
        "%s vectors, %d threads: memory %.1f GB/s, L2 cache %.1f GB/s, float32 %.1f Gop/s\n",
        vector_kernels().isa, ops_.pool().size(), limits_.read_bytes_per_second * 1e-9,
        float_limits_.cached_read_bytes_per_second * 1e-9,
        2e-9 * float_limits_.multiply_adds_per_second);
  }

  void norms();
  void activations();
  void rope();
  void quantization();
  void hadamard();
  void decode_attention();
  void prefill_attention();
  void attend_prompt(const Heads& shape, KvTypes types, const AttentionTiles* tiles);
  void embedding();
  void softmax();
  void sampling();

  bool wants(const char* kernel) const {
    return options_.kernels.empty() || std::find(options_.kernels.begin(), options_.kernels.end(),
                                                 kernel) != options_.kernels.end();
  }

 private:
  Matrix random_matrix(std::int64_t rows, std::int64_t columns);
  void attend(const Heads& shape, KvTypes types, std::int64_t depth);
  KvCache filled_cache(const Heads& shape, KvTypes types, std::int64_t depth);

  /// body(call) for call = 0, 1, 2, ...
  template <typename Body>
  void time(const std::string& kernel, const std::string& shape, const Work& work, Body body);

  Options options_;
  CpuOps ops_;
  ops::cpu::MachineLimits limits_;
  bench::FloatLimits float_limits_;
};

template <typename Body>
void Bench::time(const std::string& kernel, const std::string& shape, const Work& work, Body body) {
  constexpr double kRoundSeconds = 0.004;
  std::int64_t call = 0;
  body(call++);
  const double start = bench::now();
  body(call++);
  const double once = std::max(bench::now() - start, 1e-8);
  const auto calls =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(kRoundSeconds / once), 1, 100000);
  std::vector<double> seconds;
  for (int round = 0; round < options_.rounds; ++round) {
    const double begin = bench::now();
    for (std::int64_t i = 0; i < calls; ++i) {
      body(call++);
    }
    seconds.push_back((bench::now() - begin) / static_cast<double>(calls));
  }
  const double middle = bench::median(seconds);
  const double rate =
      work.cold ? limits_.read_bytes_per_second : float_limits_.cached_read_bytes_per_second;
  const double limit =
      std::max(work.bytes / rate, work.operations / (2 * float_limits_.multiply_adds_per_second));
  std::printf("%-22s %-26s %-6s %9.1f KB %10.3f Mop %10.2f us %8.2f GB/s %8.2f Gop/s %6.1f %%\n",
              kernel.c_str(), shape.c_str(), work.cold ? "memory" : "cache", work.bytes * 1e-3,
              work.operations * 1e-6, middle * 1e6, work.bytes / middle * 1e-9,
              work.operations / middle * 1e-9, 100 * limit / middle);
  std::fflush(stdout);
}

Matrix Bench::random_matrix(std::int64_t rows, std::int64_t columns) {
  core::Random random(static_cast<std::uint64_t>(rows + columns));
  Matrix x = ops_.matrix(rows, columns);
  std::generate_n(x.data(), rows * columns, [&] { return random.normal(); });
  return x;
}

std::string tokens(std::int64_t m, std::int64_t columns) {
  return std::to_string(m) + " x " + std::to_string(columns);
}

Norm norm_of(NormKind kind) {
  Norm norm;
  norm.kind = kind;
  norm.weight.assign(kHidden, 1.0f);
  if (kind == NormKind::kLayer) {
    norm.bias.assign(kHidden, 0.1f);
  }
  return norm;
}

void Bench::norms() {
  for (const std::int64_t m : kBatches) {
    const double elements = static_cast<double>(m * kHidden);
    const std::string shape = tokens(m, kHidden);
    Matrix x = random_matrix(m, kHidden);
    Matrix delta = ops_.zeros(m, kHidden);
    const Norm rms = norm_of(NormKind::kRms);
    const Norm layer = norm_of(NormKind::kLayer);
    const double weights = kFloat * kHidden;
    time("RMS norm", shape, {2 * kFloat * elements + weights, 4 * elements},
         [&](std::int64_t) { ops_.norm_matrix(x, rms); });
    time("layer norm", shape, {2 * kFloat * elements + 2 * weights, 8 * elements},
         [&](std::int64_t) { ops_.norm_matrix(x, layer); });
    time("add + RMS norm", shape, {4 * kFloat * elements + weights, 5 * elements},
         [&](std::int64_t) { ops_.add_norm(x, delta, rms, kNoLayers); });
  }
}

void Bench::activations() {
  for (const std::int64_t m : kBatches) {
    const double elements = static_cast<double>(m * kMlp);
    const Matrix gate_up = random_matrix(m, 2 * kMlp);
    const Matrix x = random_matrix(m, kMlp);
    // silu(g) u = g u / (1 + exp(-g))
    time("SwiGLU", tokens(m, kMlp), {3 * kFloat * elements, 5 * elements},
         [&](std::int64_t) { ops_.gated_activation(gate_up, MlpActivation::kSilu, kNoLayers); });
    // x / (1 + exp(-2 c (x + 0.044715 x^3)))
    time("GELU (tanh)", tokens(m, kMlp), {2 * kFloat * elements, 9 * elements},
         [&](std::int64_t) { ops_.mlp_activation(x, MlpActivation::kGeluTanh, kNoLayers); });
  }
}

void Bench::rope() {
  constexpr std::int64_t kTurnedHeads = 40;
  constexpr std::int64_t kDim = 64;
  std::vector<float> frequency(kDim / 2);
  for (std::size_t i = 0; i < frequency.size(); ++i) {
    frequency[i] = std::pow(10000.0f, -2.0f * static_cast<float>(i) / kDim);
  }
  for (const std::int64_t m : kBatches) {
    Matrix x = random_matrix(m, kTurnedHeads * kDim);
    const double elements = static_cast<double>(m * kTurnedHeads * kDim);
    // Two multiplications and an addition for each element; sine and cosine once for all heads.
    const double angles = static_cast<double>(m) * kDim / 2;
    time("RoPE", tokens(m, kTurnedHeads) + " x 64",
         {2 * kFloat * elements, 3 * elements + 3 * angles}, [&](std::int64_t) {
           ops_.pool().parallel_for(m, 4, [&](std::int64_t begin, std::int64_t end) {
             thread_local Rotation rotation;
             for (std::int64_t i = begin; i < end; ++i) {
               rotation.set(frequency, i, 1.0f);
               for (std::int64_t h = 0; h < kTurnedHeads; ++h) {
                 rotate(x.row(i) + h * kDim, rotation);
               }
             }
           });
         });
  }
}

void Bench::quantization() {
  constexpr std::pair<const char*, const char*> kKinds[] = {
      {"INT8, groups of 32", "int4-sym-g32"},
      {"INT8, groups of 128", "int4-sym-g128"},
      {"INT8, rows", "int8-sym-row-a8"},
      {"INT4, rows", "int4-sym-g128-a4"},
      {"INT4, groups of 128", "int4-sym-g128-a4g128"}};
  for (const std::int64_t m : kBatches) {
    const Matrix x = random_matrix(m, kHidden);
    for (const auto& [name, scheme] : kKinds) {
      const InputNeeds needs = input_needs(formats::parse_scheme(scheme), kHidden);
      const double elements = static_cast<double>(m * kHidden);
      const double groups = elements / static_cast<double>(needs.group);
      QuantizedInput out;
      // Largest magnitude, multiply, round, sum; a code, and for each group a scale and a sum.
      time(std::string("to ") + name, tokens(m, kHidden),
           {(kFloat + 1) * elements + 8 * groups, 4 * elements}, [&](std::int64_t) {
             quantize_input(x.data(), m, kHidden, kHidden, needs, out, ops_.pool());
           });
    }
  }
}

void Bench::hadamard() {
  for (const std::int64_t m : kBatches) {
    for (const auto& [columns, size] :
         {std::pair<std::int64_t, std::int64_t>{kHidden, 128}, {kHidden, kHidden}, {kMlp, kMlp}}) {
      Matrix x = random_matrix(m, columns);
      const formats::Hadamard turn(size);
      const double elements = static_cast<double>(m * columns);
      // Butterflies of log2(size) additions for each element, and one multiplication; the factor
      // 44 of 5632 takes 44 additions.
      const bool paley = size == kMlp;
      const double additions = paley ? 44 + std::log2(128.0) : std::log2(static_cast<double>(size));
      time("Hadamard " + std::to_string(size), tokens(m, columns),
           {2 * kFloat * elements, (additions + 1) * elements}, [&](std::int64_t) {
             ops_.pool().parallel_for(m, 8, [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t i = begin; i < end; ++i) {
                 turn.apply(std::span(x.row(i), static_cast<std::size_t>(x.columns())));
               }
             });
           });
    }
  }
}

/// As many layers as fill --cold, all with the keys and values of the first.
KvCache Bench::filled_cache(const Heads& shape, KvTypes type, std::int64_t depth) {
  const std::int64_t layer_bytes = KvCache::bytes(type, 1, shape.kv_heads, shape.dim, depth);
  const std::int64_t layers = options_.cold_bytes / layer_bytes + 1;
  KvCache cache(type, layers, shape.kv_heads, shape.dim, depth);
  core::Random random(3);
  std::vector<float> key(static_cast<std::size_t>(shape.dim));
  std::vector<float> value(key.size());
  for (std::int64_t head = 0; head < shape.kv_heads; ++head) {
    for (std::int64_t position = 0; position < depth; ++position) {
      std::generate(key.begin(), key.end(), [&] { return random.normal(); });
      std::generate(value.begin(), value.end(), [&] { return random.normal(); });
      cache.store(0, head, position, key.data(), value.data());
    }
  }
  // A head of a page: its keys, values and ranges lie one after another.
  const auto block = static_cast<std::size_t>(KvPool::page_bytes(type, 1, 1, shape.dim));
  for (std::int64_t layer = 1; layer < layers; ++layer) {
    for (std::int64_t head = 0; head < shape.kv_heads; ++head) {
      for (std::int64_t page = 0; page < pages_for(depth); ++page) {
        std::memcpy(const_cast<void*>(cache.keys(layer, head).page(page).data),
                    cache.keys(0, head).page(page).data, block);
      }
    }
  }
  return cache;
}

AttentionSpec spec_of(const Heads& shape) {
  AttentionSpec spec;
  spec.heads = shape.heads;
  spec.kv_heads = shape.kv_heads;
  spec.head_dim = shape.dim;
  return spec;
}

constexpr KvTypes kKvTypes[] = {KvType::kF32,  KvType::kF16,
                                KvType::kInt8, {KvType::kInt8, KvType::kInt4},
                                KvType::kInt4, KvType::kFp8};

std::string name_of(KvTypes types) {
  constexpr const char* kNames[] = {"f32", "f16", "int8", "int4", "fp8"};
  const std::string keys = kNames[static_cast<int>(types.keys)];
  const std::string values = kNames[static_cast<int>(types.values)];
  return keys == values ? keys : keys + "-" + values;
}

std::string name_of(const Heads& shape) {
  return std::to_string(shape.heads) + "/" + std::to_string(shape.kv_heads) + " x " +
         std::to_string(shape.dim);
}

/// One token at the end of `depth` positions, RoPE left out.
void Bench::attend(const Heads& shape, KvTypes type, std::int64_t depth) {
  KvCache cache = filled_cache(shape, type, depth);
  const std::int64_t layer_bytes = KvCache::bytes(type, 1, shape.kv_heads, shape.dim, depth);
  const std::int64_t layers = options_.cold_bytes / layer_bytes + 1;
  const AttentionSpec spec = spec_of(shape);
  Matrix qkv = random_matrix(1, (shape.heads + 2 * shape.kv_heads) * shape.dim);
  Matrix out = ops_.matrix(1, shape.heads * shape.dim);
  const std::int32_t token = 0;
  const auto position = static_cast<std::int32_t>(depth - 1);
  const SequenceSlice<KvCache> slice = {&cache, depth - 1, 0, 1};
  const Batch<KvCache> batch = {{&token, 1}, {&position, 1}, {&slice, 1}};
  const double scores = static_cast<double>(shape.heads * depth);
  const Work work = {static_cast<double>(layer_bytes) +
                         kFloat * static_cast<double>(qkv.columns() + out.columns()),
                     scores * (4.0 * static_cast<double>(shape.dim) + 1), true};
  time("attention, KV " + name_of(type), name_of(shape) + " at " + std::to_string(depth), work,
       [&](std::int64_t call) { attention(qkv, spec, call % layers, batch, out, ops_.pool()); });
}

void Bench::decode_attention() {
  for (const Heads& shape : {Heads{32, 8, 64}, Heads{32, 32, 128}}) {
    for (const KvTypes types : kKvTypes) {
      for (const std::int64_t depth : {128, 1024, 4096}) {
        attend(shape, types, depth);
      }
      if (shape.heads > shape.kv_heads) {
        attend(shape, types, 16384);
      }
    }
  }
}

void Bench::prefill_attention() {
  for (const Heads& shape : {Heads{32, 8, 64}, Heads{32, 32, 128}}) {
    for (const KvTypes types : {KvTypes(KvType::kF16), KvTypes(KvType::kInt8),
                                KvTypes(KvType::kInt4), KvTypes(KvType::kFp8)}) {
      attend_prompt(shape, types, nullptr);
      if (has_attention_of_prompts(types)) {
        attend_prompt(shape, types, active_attention_tiles());
      }
    }
  }
}

/// In float32 vectors, or in tile registers.
void Bench::attend_prompt(const Heads& shape, KvTypes types, const AttentionTiles* tiles) {
  KvCache cache(types, 1, shape.kv_heads, shape.dim, kPrompt);
  const AttentionSpec spec = spec_of(shape);
  Matrix qkv = random_matrix(kPrompt, (shape.heads + 2 * shape.kv_heads) * shape.dim);
  Matrix out = ops_.matrix(kPrompt, shape.heads * shape.dim);
  const std::vector<std::int32_t> ids(kPrompt, 0);
  const SequenceSlice<KvCache> slice = {.cache = &cache, .rows = kPrompt, .prompt_rows = kPrompt};
  const Batch<KvCache> batch = {ids, ids, {&slice, 1}};
  const double scores = static_cast<double>(shape.heads * kPrompt * (kPrompt + 1)) / 2;
  const double bytes =
      kFloat * static_cast<double>(kPrompt * (qkv.columns() + out.columns())) +
      static_cast<double>(KvCache::bytes(types, 1, shape.kv_heads, shape.dim, kPrompt));
  time((tiles == nullptr ? "prompt, KV " : "prompt, tiles, KV ") + name_of(types),
       name_of(shape) + ", 512", {bytes, scores * (4.0 * static_cast<double>(shape.dim) + 1)},
       [&](std::int64_t) { attention(qkv, spec, 0, batch, out, ops_.pool(), tiles); });
}

void Bench::embedding() {
  core::Tensor table = core::Tensor::zeros(core::DType::kBF16, {kVocabulary, kHidden});
  std::memset(table.mutable_raw(), 0x3c, static_cast<std::size_t>(table.bytes()));
  core::Random random(5);
  for (const std::int64_t m : kBatches) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(m));
    const double elements = static_cast<double>(m * kHidden);
    time("embedding, bfloat16", tokens(m, kHidden), {(2 + kFloat) * elements, 0, true},
         [&](std::int64_t) {
           std::generate(ids.begin(), ids.end(),
                         [&] { return static_cast<std::int32_t>(random.below(kVocabulary)); });
           ops_.embed(table, ids);
         });
  }
}

void Bench::softmax() {
  constexpr std::int64_t kRows = 32;
  constexpr std::int64_t kDepth = 1024;
  Matrix x = random_matrix(kRows, kDepth);
  const double elements = static_cast<double>(kRows * kDepth);
  // Largest, subtract, exp, add.
  time("softmax numerators", tokens(kRows, kDepth), {2 * kFloat * elements, 4 * elements},
       [&](std::int64_t) {
         ops_.pool().parallel_for(kRows, 4, [&](std::int64_t begin, std::int64_t end) {
           for (std::int64_t i = begin; i < end; ++i) {
             vector_kernels().softmax_numerators(x.row(i), kDepth);
           }
         });
       });
}

void Bench::sampling() {
  const Matrix logits = random_matrix(1, kVocabulary);
  const std::pair<const char*, engine::SamplingOptions> cases[] = {
      {"most probable token", {.temperature = 0}},
      {"sampling, top 40", {}},
      {"sampling, all", {.top_k = 0, .top_p = 1, .min_p = 0}}};
  for (const auto& [name, options] : cases) {
    engine::Sampler sampler(options);
    std::vector<ops::RankedToken> ranked;
    // NaN or not, larger or not.
    time(name, tokens(1, kVocabulary), {kFloat * kVocabulary, 2.0 * kVocabulary},
         [&](std::int64_t) {
           if (sampler.wanted() == 0) {
             sampler.sample_row(logits.values());
           } else {
             engine::rank(logits.values(), sampler.wanted(), ranked);
             sampler.sample(ranked);
           }
         });
  }
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
    } else if (name == "--kernels") {
      options.kernels = bench::split(value);
    } else {
      core::fail(core::ErrorKind::kUsage,
                 "unknown option {}: use --threads, --rounds, --cold, --kernels", name);
    }
  });
  return options;
}

struct Kernel {
  const char* name;
  void (Bench::*run)();
};
constexpr Kernel kKernels[] = {{"norm", &Bench::norms},
                               {"activation", &Bench::activations},
                               {"rope", &Bench::rope},
                               {"quantize", &Bench::quantization},
                               {"hadamard", &Bench::hadamard},
                               {"attention", &Bench::decode_attention},
                               {"prefill", &Bench::prefill_attention},
                               {"embedding", &Bench::embedding},
                               {"softmax", &Bench::softmax},
                               {"sampling", &Bench::sampling}};

void run(Options options) {
  for (const std::string& wanted : options.kernels) {
    core::require(std::any_of(std::begin(kKernels), std::end(kKernels),
                              [&](const Kernel& kernel) { return wanted == kernel.name; }),
                  core::ErrorKind::kUsage,
                  "no kernel '{}': use norm, activation, rope, quantize, hadamard, attention, "
                  "prefill, embedding, softmax, sampling",
                  wanted);
  }
  Bench bench(std::move(options));
  for (const Kernel& kernel : kKernels) {
    if (bench.wants(kernel.name)) {
      (bench.*kernel.run)();
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  return nibble::bench::run_program("cpu_kernels_bench", [&] { run(parse(argc, argv)); });
}
