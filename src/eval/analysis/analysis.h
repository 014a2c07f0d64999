#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/progress.h"
#include "engine/runner.h"
#include "eval/analysis/position_means.h"
#include "eval/analysis/signal_to_noise.h"
#include "models/model.h"

namespace nibble::eval {

/// A text that is read as a whole; positions are counted in it from 1.
struct AnalysisText {
  std::vector<std::int32_t> source;        // that the encoder reads; empty: there is no encoder
  std::vector<std::int32_t> source_types;  // its token types; empty: all 0
  std::vector<std::int32_t> target;  // of the decoder, its start token first; empty: there is none
};

/// Smallest, largest, and largest absolute value of a token's vector.
struct RangeCurves {
  PositionMeans minimum;
  PositionMeans maximum;
  PositionMeans magnitude;
};

/// Ranges at one place of both models; without a second one its curves have no positions.
struct PlaceRanges {
  std::string place;  // "residual stream", "qkv input", ...
  RangeCurves model;
  RangeCurves quantized;
};

/// Noise of a layer's output, or of the residual stream behind a block.
struct PlaceNoise {
  std::string place;      // a layer's name, or "residual stream"
  SignalToNoise chained;  // all layers before are quantized too
  SignalToNoise alone;    // the quantized block reads what the model's own block reads
};

struct BlockAnalysis {
  std::vector<PlaceRanges> ranges;  // inputs of its layers, then the residual stream behind it
  std::vector<PlaceNoise> noise;    // its layers in their order, then the stream; empty: not told
};

struct StackAnalysis {
  std::string name;  // "encoder", "decoder"
  models::NormPlacement norms = models::NormPlacement::kPre;
  PlaceRanges embedding;  // the residual stream before the first block
  std::vector<BlockAnalysis> blocks;
};

/// Negative log-likelihood, in nats, of the token at a position by the tokens before it.
struct PositionalLoss {
  PositionMeans model;
  PositionMeans quantized;
  PositionMeans increase;  // quantized minus model, token by token
  DoublingSlope growth;    // of the increase
};

struct Analysis {
  std::int64_t texts = 0;
  std::int64_t tokens = 0;  // of all texts, sources and targets
  std::vector<StackAnalysis> stacks;
  std::optional<PositionalLoss> loss;  // of decoders
};

/// A model and how it is run.
struct AnalysisSide {
  std::shared_ptr<const models::Model> model;
  engine::RunnerOptions options;
};

/// Reads each text by both models at the same time, block after block. `quantized.model` may be
/// null. Experts are not looked into: which tokens they see depends on the router.
/// Throws kUsage for a device other than the CPU, for texts that do not fit the model (an empty
/// one, say), and for two models that are not of one shape; kFailed where a model computes NaN;
/// and as engine::CpuLayers.
Analysis analyze(const AnalysisSide& model, const AnalysisSide& quantized,
                 std::span<const AnalysisText> texts, core::ProgressSink& progress);

/// Whether the values inside of a compressed model stand for those of the original, so that noise
/// means something. Recipes that scale or turn the values between layers change them.
bool tells_noise(const models::Model& quantized);

}  // namespace nibble::eval
