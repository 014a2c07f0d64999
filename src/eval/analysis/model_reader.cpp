#include "eval/analysis/model_reader.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "eval/log_softmax.h"
#include "models/encoder_forward.h"

namespace nibble::eval {
namespace {

using core::ErrorKind;
using ops::cpu::KvCache;

constexpr std::int64_t kLogitRows = 256;  // that exist at a time

using Slice = ops::SequenceSlice<KvCache>;

// The whole of a batch that holds one text.
models::Batch<RecordingOps> whole(const engine::EncoderBatch& batch, const Slice& slice) {
  return {batch.tokens(), batch.positions(), {&slice, 1}, batch.types()};
}

}  // namespace

ModelReader::ModelReader(const AnalysisSide& side)
    : model_(side.model),
      ops_(side.options.cpu),
      layers_(*model_, side.options, ops_),
      source_(network()),
      target_(network()) {}

void ModelReader::begin(const AnalysisText& text) {
  source_.clear();
  target_.clear();
  wanted_.clear();
  if (network().has_encoder()) {
    source_.append({text.source, text.source_types});
  }
  if (network().has_decoder()) {
    core::require(text.target.size() >= 2, ErrorKind::kUsage,
                  "a text of {} tokens predicts nothing; use at least 2", text.target.size());
    // Behind an encoder the last token ends the text: nothing is written after it.
    const std::size_t read = text.target.size() - (network().has_encoder() ? 1 : 0);
    target_.append({std::span(text.target).first(read), {}});
    wanted_.assign(text.target.begin() + 1, text.target.end());
    const std::int32_t last = wanted_.back();  // which the batch may lack, and not have checked
    core::require(last >= 0 && last < network().config.vocabulary, ErrorKind::kFailed,
                  "token id {} lies outside the vocabulary of {}", last,
                  network().config.vocabulary);
  }
}

const engine::EncoderBatch& ModelReader::batch_of(StackOf stack) const {
  return stack == &models::Network::encoder ? source_ : target_;
}

ModelReader::Matrix ModelReader::embed(StackOf stack) {
  const engine::EncoderBatch& batch = batch_of(stack);
  const Slice slice{nullptr, 0, 0, batch.rows()};
  const models::Embeddings& tables =
      stack == &models::Network::encoder ? network().embeddings_of_encoder() : network().embeddings;
  return models::embed(ops_, tables, network().config.position_offset, whole(batch, slice));
}

Memory ModelReader::make_memory() const {
  const models::NetworkConfig& config = network().config;
  if (!network().has_encoder() || !network().has_decoder()) {
    return nullptr;
  }
  return std::make_unique<KvCache>(ops::KvType::kF32, config.layers, config.kv_heads,
                                   config.head_dim, source_.rows());
}

void ModelReader::run_block(StackOf stack, std::size_t block, const Matrix& states, Memory& memory,
                            Matrix& x) {
  const models::Stack& blocks = network().*stack;
  const auto layer = static_cast<std::int64_t>(block);
  const engine::EncoderBatch& batch = batch_of(stack);
  const auto& cross = blocks.blocks[block].cross;
  if (cross) {
    const Slice slice{nullptr, 0, 0, source_.rows(), memory.get(), source_.rows()};
    auto input = ops_.input(states, cross->kv);
    ops_.remember(ops_.linear(input, cross->kv), cross->spec, layer, whole(source_, slice));
  }
  const Slice slice{nullptr, 0, 0, batch.rows(), memory.get(), source_.rows()};
  models::move_through(ops_, network().config, blocks.norms, blocks.blocks[block], layer,
                       whole(batch, slice), x);
  layers_.check_intact();
}

ModelReader::Matrix ModelReader::encoder_states(Matrix x) {
  const auto& norm = network().encoder.final_norm;
  return norm ? ops_.norm_matrix(x, *norm) : std::move(x);
}

std::vector<double> ModelReader::losses(const Matrix& x) {
  std::vector<double> losses(wanted_.size());
  const std::int64_t count = std::ssize(losses);
  for (std::int64_t first = 0; first < count; first += kLogitRows) {
    const std::int64_t rows = std::min(kLogitRows, count - first);
    const Matrix logits = models::logits(ops_, network(), ops_.copy(x, first, rows));
    ops_.pool().parallel_for(rows, 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto at = static_cast<std::size_t>(first + i);
        const std::span<const float> row(logits.row(i), static_cast<std::size_t>(logits.columns()));
        const float own = row[static_cast<std::size_t>(wanted_[at])];
        losses[at] = log_sum_exp(row) - static_cast<double>(own);
      }
    });
  }
  core::require(
      std::all_of(losses.begin(), losses.end(), [](double loss) { return std::isfinite(loss); }),
      ErrorKind::kFailed, "the model computed NaN or infinite logits; its weights may be damaged");
  return losses;
}

}  // namespace nibble::eval
