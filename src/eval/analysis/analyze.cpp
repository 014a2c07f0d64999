#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"
#include "eval/analysis/analysis.h"
#include "eval/analysis/model_reader.h"
#include "eval/analysis/places.h"

namespace nibble::eval {
namespace {

using core::ErrorKind;
using models::Network;
using ops::LinearSet;
using Matrix = ModelReader::Matrix;

void add(RangeCurves& curves, const Matrix& x) {
  const auto rows = static_cast<std::size_t>(x.rows());
  std::vector<double> minimum(rows);
  std::vector<double> maximum(rows);
  std::vector<double> magnitude(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    const float* const row = x.row(static_cast<std::int64_t>(i));
    const auto [low, high] = std::minmax_element(row, row + x.columns());
    minimum[i] = *low;
    maximum[i] = *high;
    magnitude[i] = std::max(std::abs(minimum[i]), std::abs(maximum[i]));
  }
  curves.minimum.add_window(1, minimum);
  curves.maximum.add_window(1, maximum);
  curves.magnitude.add_window(1, magnitude);
}

// Outputs of a set's layers stand side by side; `noise` begins with that of the first one.
void add(std::span<PlaceNoise> noise, SignalToNoise PlaceNoise::*which, const LinearSet& set,
         const Matrix& reference, const Matrix& y) {
  for (std::int64_t i = 0; i < y.rows(); ++i) {
    std::int64_t column = 0;
    for (std::size_t part = 0; part < set.parts.size(); ++part) {
      const std::int64_t width = set.parts[part].weight.n;
      const auto count = static_cast<std::size_t>(width);
      (noise[part].*which).add({reference.row(i) + column, count}, {y.row(i) + column, count});
      column += width;
    }
  }
}

// What an encoder made of the text, and what decoders remember of it.
struct Encoded {
  Matrix states;            // of the model
  Matrix quantized_states;  // of the quantized one
  Memory memory;            // the model remembers its own states,
  Memory quantized_memory;  // the quantized one its own,
  Memory alone_memory;      // and the quantized one those of the model
};

struct Streams {
  Matrix model;
  Matrix quantized;
};

class Analyzer {
 public:
  Analyzer(const AnalysisSide& model, const AnalysisSide& quantized)
      : model_(model), with_noise_(quantized.model && tells_noise(*quantized.model)) {
    if (quantized.model) {
      quantized_ = std::make_unique<ModelReader>(quantized);
      require_same_shape(network(), quantized_->network());
    }
    if (network().has_encoder()) {
      result_.stacks.push_back(empty_stack("encoder", network().encoder, with_noise_));
    }
    if (network().has_decoder()) {
      result_.stacks.push_back(empty_stack("decoder", network().decoder, with_noise_));
      result_.loss.emplace();
    }
  }

  void read(const AnalysisText& text) {
    Encoded encoded = begin(text);
    if (network().has_encoder()) {
      Streams streams = run_stack(&Network::encoder, result_.stacks.front(), encoded);
      encoded.states = model_.encoder_states(std::move(streams.model));
      if (quantized_) {
        encoded.quantized_states = quantized_->encoder_states(std::move(streams.quantized));
      }
    }
    if (network().has_decoder()) {
      add_losses(run_stack(&Network::decoder, result_.stacks.back(), encoded));
    }
    result_.texts += 1;
    result_.tokens += std::ssize(text.source) + std::ssize(text.target);
  }

  Analysis take() { return std::move(result_); }

 private:
  // Takes what the layers of a block read and give; `number` is the set's of named_sets().
  using SeeSet = std::function<void(std::size_t number, const NamedSet& named, const Matrix& x,
                                    const Matrix& y)>;

  const Network& network() const { return model_.network(); }

  Encoded begin(const AnalysisText& text) {
    Encoded encoded;
    model_.begin(text);
    encoded.memory = model_.make_memory();
    if (quantized_) {
      quantized_->begin(text);
      encoded.quantized_memory = quantized_->make_memory();
      encoded.alone_memory = quantized_->make_memory();
    }
    return encoded;
  }

  Streams run_stack(StackOf stack, StackAnalysis& analysis, Encoded& encoded) {
    Streams streams;
    streams.model = model_.embed(stack);
    add(analysis.embedding.model, streams.model);
    if (quantized_) {
      streams.quantized = quantized_->embed(stack);
      add(analysis.embedding.quantized, streams.quantized);
    }
    for (std::size_t b = 0; b < analysis.blocks.size(); ++b) {
      run_block(stack, b, analysis.blocks[b], encoded, streams);
    }
    return streams;
  }

  // The block of both models, and the quantized one once more for what the model's has read.
  void run_block(StackOf stack, std::size_t b, BlockAnalysis& analysis, Encoded& encoded,
                 Streams& streams) {
    Matrix before = with_noise_ ? model_.ops().copy(streams.model) : Matrix();
    std::vector<Matrix> outputs(analysis.ranges.size());
    watch(model_, stack, b,
          [&](std::size_t number, const NamedSet&, const Matrix& x, const Matrix& y) {
            add(analysis.ranges[number].model, x);
            outputs[number] = with_noise_ ? model_.ops().copy(y) : Matrix();
          });
    model_.run_block(stack, b, encoded.states, encoded.memory, streams.model);
    add(analysis.ranges.back().model, streams.model);
    if (!quantized_) {
      return;
    }
    const auto add_noise = [&](SignalToNoise PlaceNoise::*which, std::size_t number,
                               const NamedSet& named, const Matrix& y) {
      if (with_noise_) {
        add(std::span(analysis.noise).subspan(named.first_layer), which, *named.set,
            outputs[number], y);
      }
    };
    watch(*quantized_, stack, b,
          [&](std::size_t number, const NamedSet& named, const Matrix& x, const Matrix& y) {
            add(analysis.ranges[number].quantized, x);
            add_noise(&PlaceNoise::chained, number, named, y);
          });
    quantized_->run_block(stack, b, encoded.quantized_states, encoded.quantized_memory,
                          streams.quantized);
    add(analysis.ranges.back().quantized, streams.quantized);
    if (!with_noise_) {
      return;
    }
    watch(*quantized_, stack, b,
          [&](std::size_t number, const NamedSet& named, const Matrix&, const Matrix& y) {
            add_noise(&PlaceNoise::alone, number, named, y);
          });
    quantized_->run_block(stack, b, encoded.states, encoded.alone_memory, before);
    PlaceNoise& stream = analysis.noise.back();
    stream.chained.add(streams.model.values(), streams.quantized.values());
    stream.alone.add(streams.model.values(), before.values());
  }

  // From here on `see` takes what the layers of this block read and give.
  static void watch(ModelReader& reader, StackOf stack, std::size_t block, SeeSet see) {
    auto sets = named_sets((reader.network().*stack).blocks[block]);
    reader.ops().set_recorder([sets = std::move(sets), see = std::move(see)](
                                  const LinearSet& set, const Matrix& x, const Matrix& y) {
      if (const auto number = find_set(sets, set)) {
        see(*number, sets[*number], x, y);
      }
    });
  }

  void add_losses(const Streams& streams) {
    PositionalLoss& loss = *result_.loss;
    const std::vector<double> own = model_.losses(streams.model);
    loss.model.add_window(2, own);
    if (!quantized_) {
      return;
    }
    std::vector<double> other = quantized_->losses(streams.quantized);
    loss.quantized.add_window(2, other);
    std::transform(other.begin(), other.end(), own.begin(), other.begin(), std::minus<>());
    loss.increase.add_window(2, other);
    loss.growth.add_window(2, other);
  }

  ModelReader model_;
  std::unique_ptr<ModelReader> quantized_;  // null: there is none
  bool with_noise_;
  Analysis result_;
};

}  // namespace

bool tells_noise(const models::Model& quantized) {
  return quantized.compression.keeps_inputs.value_or(quantized.compression.recipe.empty());
}

Analysis analyze(const AnalysisSide& model, const AnalysisSide& quantized,
                 std::span<const AnalysisText> texts, core::ProgressSink& progress) {
  core::require(!model.options.place.on_gpu(), ErrorKind::kUsage,
                "the inside of a model is read on a CPU only; use --device cpu");
  core::require(!texts.empty(), ErrorKind::kUsage, "there is no text to read");
  Analyzer analyzer(model, quantized);
  progress.begin("analyze", std::ssize(texts));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    analyzer.read(texts[i]);
    progress.update(static_cast<std::int64_t>(i) + 1, "");
  }
  progress.end();
  return analyzer.take();
}

}  // namespace nibble::eval
