#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "engine/encoder.h"
#include "float_limits.h"
#include "formats/scheme.h"
#include "measure.h"
#include "models/model.h"
#include "ops/cpu/limits/machine_limits.h"
#include "options.h"

// Times an encoder on the CPU.
//
//   encoder_cpu_bench MODEL [--threads N] [--rounds R] [--shapes 1x128,8x128]
//                     [--float MODEL] [--states FILE] [--turns 1]
//
// First line: what this machine multiplies at best, measured here and now, in the kind of products
// that the model's layers take. Each row is the median of the rounds, and the share of that limit
// that the layers' products alone make. With --float, the cosine of all states to those of another
// model. With --states, writes the states of the first shape as float32. With --turns 1 it reads
// lines "BATCH LENGTH REPEATS" and answers each with the median in milliseconds: so a caller takes
// turns between programs.
//
// Token i of a call is number 5 + i * 7919 mod (vocabulary - 5).
namespace {

using namespace nibble;
using bench::now;

struct Shape {
  std::int64_t batch, length;
};

struct Options {
  std::string model;
  std::string float_model;
  std::string states;
  int threads = 1;
  int rounds = 7;
  bool turns = false;
  std::vector<Shape> shapes = {{1, 128}, {8, 128}};
};

// Texts of one length, whose tokens follow a rule.
class Texts {
 public:
  Texts(const Shape& shape, std::int64_t vocabulary) {
    for (std::int64_t i = 0; i < shape.batch * shape.length; ++i) {
      tokens_.push_back(static_cast<std::int32_t>(5 + i * 7919 % (vocabulary - 5)));
    }
    for (std::int64_t text = 0; text < shape.batch; ++text) {
      texts_.push_back({std::span(tokens_).subspan(static_cast<std::size_t>(text * shape.length),
                                                   static_cast<std::size_t>(shape.length)),
                        {}});
    }
  }
  std::span<const engine::EncoderText> texts() const { return texts_; }

 private:
  std::vector<std::int32_t> tokens_;
  std::vector<engine::EncoderText> texts_;
};

class Bench {
 public:
  Bench(const std::string& path, int threads) : model_(models::open_model(path)) {
    engine::RunnerOptions options;
    options.cpu.threads = threads;
    encoder_ = engine::make_encoder(model_, options);
  }

  bool in_float() const { return formats::is_dense(first_layer().weight.scheme); }

  engine::EncoderRows states(const Shape& shape) {
    return encoder_->hidden_states(Texts(shape, config().vocabulary).texts());
  }

  double seconds(const Shape& shape, int rounds) {
    const Texts texts(shape, config().vocabulary);
    encoder_->hidden_states(texts.texts());
    std::vector<double> times;
    for (int round = 0; round < rounds; ++round) {
      const double start = now();
      encoder_->hidden_states(texts.texts());
      times.push_back(now() - start);
    }
    return bench::median(times);
  }

  double layer_products(const Shape& shape) const {
    double sum = 0;
    for (const models::Block& block : model_->network.encoder.blocks) {
      for (const ops::LinearSet* set :
           {&block.attention.qkv, &block.attention.out, &block.mlp->up, &block.mlp->down}) {
        sum += static_cast<double>(set->n() * set->k());
      }
    }
    return sum * static_cast<double>(shape.batch * shape.length);
  }

 private:
  const models::NetworkConfig& config() const { return model_->network.config; }
  const ops::Linear& first_layer() const {
    return model_->network.encoder.blocks.front().attention.qkv.parts.front();
  }

  std::shared_ptr<const models::Model> model_;
  std::unique_ptr<engine::Encoder> encoder_;
};

double cosine(const engine::EncoderRows& a, const engine::EncoderRows& b) {
  core::require(a.values.size() == b.values.size(), core::ErrorKind::kUsage,
                "the models make {} and {} numbers", a.values.size(), b.values.size());
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const double x = a.values[i];
    const double y = b.values[i];
    ab += x * y;
    aa += x * x;
    bb += y * y;
  }
  return ab / std::sqrt(aa * bb);
}

std::vector<Shape> parse_shapes(const std::string& text) {
  std::vector<Shape> shapes;
  for (const std::string& part : bench::split(text)) {
    Shape shape = {};
    char x = 0;
    std::istringstream words(part);
    core::require(words >> shape.batch >> x >> shape.length && x == 'x' && shape.batch > 0 &&
                      shape.length > 0,
                  core::ErrorKind::kUsage, "'{}' is no shape; write it as 8x128", part);
    shapes.push_back(shape);
  }
  return shapes;
}

Options parse(int argc, char** argv) {
  core::require(argc >= 2, core::ErrorKind::kUsage, "encoder_cpu_bench MODEL [options]");
  Options options;
  options.model = argv[1];
  for (int i = 2; i < argc; i += 2) {
    const std::string name = argv[i];
    core::require(i + 1 < argc, core::ErrorKind::kUsage, "{} needs a value", name);
    const std::string value = argv[i + 1];
    if (name == "--threads") {
      options.threads = std::max(1, std::atoi(value.c_str()));
    } else if (name == "--rounds") {
      options.rounds = std::max(1, std::atoi(value.c_str()));
    } else if (name == "--shapes") {
      options.shapes = parse_shapes(value);
    } else if (name == "--float") {
      options.float_model = value;
    } else if (name == "--states") {
      options.states = value;
    } else if (name == "--turns") {
      options.turns = value == "1";
    } else {
      core::fail(core::ErrorKind::kUsage,
                 "unknown option {}: use --threads, --rounds, --shapes, --float, --states, --turns",
                 name);
    }
  }
  return options;
}

// Multiply-adds per second.
double limit_of(const Bench& bench, int threads) {
  core::ThreadPool pool(threads);
  return bench.in_float() ? bench::measure_float_limits(pool).multiply_adds_per_second
                          : ops::cpu::measure_machine_limits(pool).multiply_adds_per_second;
}

void take_turns(Bench& bench) {
  Shape shape = {};
  int repeats = 0;
  while (std::cin >> shape.batch >> shape.length >> repeats) {
    std::printf("%.4f\n", 1e3 * bench.seconds(shape, repeats));
    std::fflush(stdout);
  }
}

void write_states(const std::string& path, const engine::EncoderRows& states) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(states.values.data()),
             static_cast<std::streamsize>(states.values.size() * sizeof(float)));
  core::require(file.good(), core::ErrorKind::kFailed, "cannot write {}", path);
}

void run(const Options& options) {
  Bench bench(options.model, options.threads);
  const double limit = limit_of(bench, options.threads);
  std::printf("%d threads: %s products at %.1f GMAC/s at the most\n", options.threads,
              bench.in_float() ? "float32" : "8-bit", limit * 1e-9);
  std::fflush(stdout);
  if (options.turns) {
    return take_turns(bench);
  }
  for (const Shape& shape : options.shapes) {
    const double seconds = bench.seconds(shape, options.rounds);
    std::printf("%lldx%lld  %8.2f ms  %.3f of the limit\n", static_cast<long long>(shape.batch),
                static_cast<long long>(shape.length), 1e3 * seconds,
                bench.layer_products(shape) / seconds / limit);
  }
  const engine::EncoderRows states = bench.states(options.shapes.front());
  if (!options.float_model.empty()) {
    Bench other(options.float_model, options.threads);
    std::printf("cosine %.6f\n", cosine(states, other.states(options.shapes.front())));
  }
  if (!options.states.empty()) {
    write_states(options.states, states);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return nibble::bench::run_program("encoder_cpu_bench", [&] { run(parse(argc, argv)); });
}
