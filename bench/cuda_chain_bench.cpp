// The linear layers between two attentions of a decoder, one token, on a GPU: in one kernel
// (layer_chain.h) and, in turns with it, in a kernel each; then whole blocks, four in a kernel,
// with attention to contexts of some lengths. Weights are INT4 with a scale for each 128 inputs,
// and in no cache; keys and values float16, heads of 128. Microseconds of a block, and the share of
// the bandwidth at which this GPU reads.
//   cuda_chain_bench [HIDDENxMIDDLExQKV...]
#include <cstdio>
#include <memory>
#include <vector>

#include "core/float16.h"
#include "core/random.h"
#include "cuda_layers.h"
#include "device/cuda/check.h"
#include "device/cuda_devices.h"
#include "ops/cuda/attention/kv_pool.h"
#include "ops/cuda/layer_chain/layer_chain.h"
#include "ops/cuda/limits/read_bandwidth.h"
#include "ops/cuda/small_batch/small_batch.h"
#include "options.h"
#include "timed_launches.h"

namespace nibble::bench {
namespace {

using device::cuda::Buffer;
using ops::cuda::ChainedLayer;
using ops::cuda::UnitsView;

struct Shape {
  int hidden, middle, qkv;
};
constexpr Shape kShapes[] = {{4096, 11008, 12288}, {4096, 14336, 6144}, {8192, 28672, 10240}};

/// [n][k] whose units are all alike.
Buffer repeated_units(std::int64_t n, std::int64_t k) {
  const ops::cuda::UnitFormat format;
  core::Random random(1);
  std::vector<std::byte> unit(static_cast<std::size_t>(format.bytes()));
  for (std::byte& code : unit) {
    code = static_cast<std::byte>(random.below(256));
  }
  for (std::int64_t tile = 0; tile < ops::cuda::kTiles; ++tile) {
    auto* const scales = reinterpret_cast<core::Fp16*>(unit.data() + tile * format.tile_bytes() +
                                                       format.code_bytes());
    std::fill_n(scales, ops::cuda::kTileRows, core::to_fp16(0.01f));
  }
  std::vector<std::byte> units;
  for (std::int64_t i = 0; i < ops::cuda::unit_grid(n, k).count(); ++i) {
    units.insert(units.end(), unit.begin(), unit.end());
  }
  return Buffer::of<std::byte>(units);
}

/// The weights of a block.
class Block {
 public:
  explicit Block(const Shape& shape)
      : shape_(shape),
        out_(repeated_units(shape.hidden, shape.hidden)),
        gate_up_(repeated_units(std::int64_t{2} * shape.middle, shape.hidden)),
        down_(repeated_units(shape.hidden, shape.middle)),
        qkv_(repeated_units(shape.qkv, shape.hidden)) {}

  std::int64_t bytes() const {
    return out_.bytes() + gate_up_.bytes() + down_.bytes() + qkv_.bytes();
  }
  UnitsView out() const { return view(out_, shape_.hidden, shape_.hidden); }
  UnitsView gate_up() const {
    return view(gate_up_, std::int64_t{2} * shape_.middle, shape_.hidden);
  }
  UnitsView down() const { return view(down_, shape_.hidden, shape_.middle); }
  UnitsView qkv() const { return view(qkv_, shape_.qkv, shape_.hidden); }

 private:
  static UnitsView view(const Buffer& units, std::int64_t n, std::int64_t k) {
    return {{}, n, k, units.data(), nullptr, nullptr};
  }

  Shape shape_;
  Buffer out_;
  Buffer gate_up_;
  Buffer down_;
  Buffer qkv_;
};

/// What layers of one token read and write.
struct Arrays {
  explicit Arrays(const Shape& shape)
      : codes(std::int64_t{2} * shape.middle),
        scales(
            Buffer::of<float>(std::vector<float>(static_cast<std::size_t>(shape.middle), 1e-4f))),
        weights(
            Buffer::of<float>(std::vector<float>(static_cast<std::size_t>(shape.hidden), 1.0f))),
        stream(Buffer::of<float>(std::vector<float>(static_cast<std::size_t>(shape.hidden), 1.0f))),
        gate_up(std::int64_t{2} * shape.middle * 4),
        middle(std::int64_t{shape.middle} * 4),
        qkv(std::int64_t{shape.qkv} * 4),
        attended(std::int64_t{shape.hidden} * 4),
        norm{ops::NormKind::kRms, weights.as<float>(), nullptr, 1e-5f} {
    const std::vector<std::int8_t> ones(static_cast<std::size_t>(codes.bytes()), 1);
    codes.upload(ones.data(), codes.bytes());
  }

  Buffer codes;
  Buffer scales;
  Buffer weights;
  Buffer stream;
  Buffer gate_up;
  Buffer middle;
  Buffer qkv;
  Buffer attended;
  ops::cuda::NormWeights norm;

  ops::cuda::LaneActivations codes_of() const {
    return {2, codes.as<std::int8_t>(), scales.as<float>()};
  }
};

std::vector<ops::cuda::ChainLink> chained(const Block& block, const Arrays& arrays) {
  ChainedLayer out{.weight = block.out(), .codes = arrays.codes_of()};
  out.y = arrays.stream.as<float>();
  out.adds = true;
  ChainedLayer gate_up{.weight = block.gate_up(), .row = out.y, .norm = &arrays.norm};
  gate_up.y = arrays.middle.as<float>();
  gate_up.gate = ops::MlpActivation::kSilu;
  ChainedLayer down{.weight = block.down(), .row = gate_up.y};
  down.y = out.y;
  down.adds = true;
  ChainedLayer qkv{.weight = block.qkv(), .row = down.y, .norm = &arrays.norm};
  qkv.y = arrays.qkv.as<float>();
  return {out, gate_up, down, qkv};
}

/// Keys and values of one sequence in some layers, and the step that adds a token to it.
class Context {
 public:
  static constexpr std::int64_t kLayers = 16;

  Context(const Shape& shape, std::int64_t tokens)
      : tokens_(tokens),
        pages_((tokens + ops::cuda::kPageTokens) / ops::cuda::kPageTokens),
        layer_(layer_of(shape)),
        pool_(layer_.layout, kLayers, pages_),
        buffer_({1, pages_, 64, 64}) {
    device::cuda::check(cudaMemset(pool_.layer(0), 0, static_cast<std::size_t>(pool_.bytes())),
                        "cudaMemset");
    std::vector<ops::PageId> ids;
    for (std::int64_t page = 0; page < pages_; ++page) {
      ids.push_back(static_cast<ops::PageId>(page));
    }
    const device::cuda::Stream stream;
    const std::vector<ops::cuda::PlannedSequence> sequences{{ids, tokens, 0, 1}};
    ops::cuda::StepUpload upload;
    upload.begin();
    buffer_.put(ops::cuda::plan_attention(sequences, layer_.heads / layer_.layout.kv_heads, 0),
                upload);
    upload.start(stream.get());
    stream.synchronize();
  }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t bytes() const { return pages_ * layer_.layout.page_bytes(); }
  ops::cuda::ChainedAttention attention(int layer, const Arrays& arrays) const {
    return {layer_, arrays.qkv.as<float>(), buffer_.plan(), pool_.layer(layer % kLayers),
            arrays.attended.as<float>()};
  }

 private:
  static ops::cuda::AttentionLayer layer_of(const Shape& shape) {
    constexpr std::int64_t kHead = 128;
    ops::cuda::AttentionLayer layer;
    layer.heads = shape.hidden / kHead;
    layer.layout = {ops::KvTypes(ops::KvType::kF16), (shape.qkv / kHead - layer.heads) / 2, kHead};
    return layer;
  }

  std::int64_t tokens_;
  std::int64_t pages_;
  ops::cuda::AttentionLayer layer_;
  ops::cuda::KvPool pool_;
  ops::cuda::PlanBuffer buffer_;
};

/// What follows q, k and v of the block before, attention first, to those of the next one.
void append_block(std::vector<ops::cuda::ChainLink>& links, const Block& block,
                  const ops::cuda::ChainedAttention& attention, const Arrays& arrays) {
  links.emplace_back(attention);
  std::vector<ops::cuda::ChainLink> layers = chained(block, arrays);
  auto& out = std::get<ChainedLayer>(layers.front());
  out.codes = {};
  out.row = attention.y;
  links.insert(links.end(), layers.begin(), layers.end());
}

/// The same by small_batch.h.
void run_apart(const Block& block, const Arrays& arrays, int multiprocessors, cudaStream_t stream) {
  const auto run = [&](const UnitsView& weight, bool reads_codes, const Buffer& y, bool adds) {
    ops::cuda::SmallBatchProblem problem;
    problem.weight = weight;
    problem.m = 1;
    problem.y = y.as<float>();
    problem.ldy = weight.n;
    problem.add = adds;
    if (reads_codes) {
      problem.x = arrays.codes_of();
    } else {
      problem.rows = {arrays.stream.as<float>(), &arrays.norm, nullptr};
    }
    small_batch(problem, small_batch_schedule(weight, multiprocessors), stream);
  };
  run(block.out(), true, arrays.stream, true);
  run(block.gate_up(), false, arrays.gate_up, false);
  const ops::cuda::InputTarget target{.form = ops::cuda::InputForm::kInt8Lanes,
                                      .codes = arrays.codes.as<std::int8_t>(),
                                      .scales = arrays.scales.as<float>(),
                                      .bits = 16,
                                      .group = ops::cuda::kInputPadding};
  gated_activation({arrays.gate_up.as<float>(), true}, ops::MlpActivation::kSilu, target, 1,
                   block.down().k, stream);
  run(block.down(), true, arrays.stream, true);
  run(block.qkv(), false, arrays.qkv, false);
}

void run_shape(const Shape& shape, double bandwidth) {
  constexpr int kBlocks = 4;
  const Arrays arrays(shape);
  const auto blocks = copies_of([&] { return Block(shape); });
  const auto bytes = static_cast<double>(blocks.front().bytes());
  const int multiprocessors = device::current_cuda_device().multiprocessors;
  const auto block = [&](int turn) -> const Block& {
    return blocks[static_cast<std::size_t>(turn) % blocks.size()];
  };
  const Context contexts[] = {Context(shape, 80), Context(shape, 1000)};
  ops::cuda::LayerChain chain;
  std::vector<std::unique_ptr<Timed>> turns;
  std::vector<int> blocks_of_turns;
  const auto add = [&](const std::string& name, int count, double all, const auto& launch) {
    turns.push_back(std::make_unique<Timed>(name, all, launch));
    blocks_of_turns.push_back(count);
  };
  add("a kernel each", 1, bytes, [&](int turn, cudaStream_t stream) {
    run_apart(block(turn), arrays, multiprocessors, stream);
  });
  if (ops::cuda::LayerChain::fits(chained(block(0), arrays)) && chain.hold()) {
    add("one kernel", 1, bytes,
        [&](int turn, cudaStream_t stream) { chain.run(chained(block(turn), arrays), stream); });
    for (const Context& context : contexts) {
      const double all = kBlocks * (bytes + static_cast<double>(context.bytes()));
      add("context " + std::to_string(context.tokens()), kBlocks, all,
          [&](int turn, cudaStream_t stream) {
            std::vector<ops::cuda::ChainLink> links{chained(block(kBlocks * turn), arrays).back()};
            for (int i = kBlocks * turn; i < kBlocks * turn + kBlocks; ++i) {
              append_block(links, block(i + 1), context.attention(i, arrays), arrays);
            }
            links.pop_back();
            chain.run(links, stream);
          });
    }
  } else {
    std::printf("%d x %d x %d: this GPU runs no such chain\n", shape.hidden, shape.middle,
                shape.qkv);
  }
  read_in_turns(turns);
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const Timed& each = *turns[i];
    std::printf("%5d x %5d x %5d  %-14s %7.2f us  %4.1f %% of %.2f TB/s\n", shape.hidden,
                shape.middle, shape.qkv, each.name().c_str(),
                each.seconds() * 1e6 / blocks_of_turns[i],
                100 * each.bytes() / each.seconds() / bandwidth, bandwidth * 1e-12);
  }
  std::fflush(stdout);
}

void run(int count, char** words) {
  std::printf("%s\n", device::require_cuda_device().name.c_str());
  const double bandwidth = ops::cuda::measure_read_bandwidth();
  std::vector<Shape> shapes;
  for (int i = 1; i < count; ++i) {
    Shape shape{};
    if (std::sscanf(words[i], "%dx%dx%d", &shape.hidden, &shape.middle, &shape.qkv) == 3) {
      shapes.push_back(shape);
    }
  }
  if (shapes.empty()) {
    shapes.assign(std::begin(kShapes), std::end(kShapes));
  }
  for (const Shape& shape : shapes) {
    run_shape(shape, bandwidth);
  }
}

}  // namespace
}  // namespace nibble::bench

int main(int count, char** words) {
  return nibble::bench::run_program("cuda_chain_bench", [&] { nibble::bench::run(count, words); });
}
