#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/network.h"

namespace nibble::models {

/// What an encoder is for, as "architectures" of config.json says: which heads its checkpoint has.
enum class EncoderTask { kNone, kClassifyTexts, kClassifyTokens, kMaskedLm };

/// An encoder before a decoder, where it differs from that.
struct EncoderSizes {
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t ffn = 0;
};

/// How a network is put together, as config.json says. What is set here beside the sizes becomes
/// part of the network's stacks and ends.
struct Architecture {
  Architecture(NetworkConfig sizes) : config(std::move(sizes)) {}

  NetworkConfig config;
  NormPlacement norms = NormPlacement::kPre;
  bool final_norm = true;               // there is a norm behind the last block
  std::int64_t embedding_width = 0;     // of the tokens' rows, where it is not the hidden width
  bool is_encoder = false;              // the blocks are an encoder's; else a decoder's
  std::optional<EncoderSizes> encoder;  // before the decoder, which attends to it
  float embedding_scale = 1.0f;         // of the tokens' rows
  float score_scale = 0.0f;             // of attention (ops::AttentionSpec)
  float score_softcap = 0.0f;           // the same
  float norms_stored_less = 0.0f;       // of RMSNorms, those of queries and keys too (ops::Norm)
  std::vector<std::int64_t> dense_ffn;  // with experts: of each layer the width of its MLP, 0 where
                                        // it has experts; empty: all have
  std::int64_t token_types = 0;         // 0: the model knows none
  EncoderTask task = EncoderTask::kNone;
  Problem problem = Problem::kSingleLabel;  // of a classifier, and its labels
  std::vector<std::string> labels;
};

}  // namespace nibble::models
