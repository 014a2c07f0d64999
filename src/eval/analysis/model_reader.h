#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/cpu_layers.h"
#include "engine/encoder_batch.h"
#include "eval/analysis/analysis.h"
#include "eval/analysis/recording_ops.h"

namespace nibble::eval {

/// A stack of a network.
using StackOf = models::Stack models::Network::*;

/// Keys and values of an encoder's states, for the blocks of a decoder; null where there is none.
using Memory = std::unique_ptr<ops::cpu::KvCache>;

/// A model made ready, which reads a text block by block as models/forward.h does.
class ModelReader {
 public:
  using Matrix = RecordingOps::Matrix;

  /// Throws as engine::CpuLayers.
  explicit ModelReader(const AnalysisSide& side);

  const models::Network& network() const { return model_->network; }
  RecordingOps& ops() { return ops_; }

  /// The text that the calls from here on are about. Throws as engine::EncoderBatch.
  void begin(const AnalysisText& text);

  /// The residual stream before the first block, [tokens, hidden].
  Matrix embed(StackOf stack);
  /// Room for the encoder's states of the text.
  Memory make_memory() const;
  /// Moves the residual stream through a block. `states` are the encoder's, which a decoder's block
  /// attends to; `memory` keeps their keys and values.
  void run_block(StackOf stack, std::size_t block, const Matrix& states, Memory& memory, Matrix& x);
  /// What a decoder reads of the encoder: the stream behind its last norm.
  Matrix encoder_states(Matrix x);
  /// Negative log-likelihood of target[1], target[2], ... of the residual stream behind the
  /// decoder's last block. Throws kFailed for values that are not finite.
  std::vector<double> losses(const Matrix& x);

 private:
  const engine::EncoderBatch& batch_of(StackOf stack) const;

  std::shared_ptr<const models::Model> model_;
  RecordingOps ops_;
  engine::CpuLayers layers_;
  engine::EncoderBatch source_;
  engine::EncoderBatch target_;
  std::vector<std::int32_t> wanted_;  // target[1], target[2], ...
};

}  // namespace nibble::eval
