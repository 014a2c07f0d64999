#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "compress/calibration/calibration.h"
#include "core/progress.h"
#include "models/forward.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {

/// Texts whose tokens run through a stack together, one after another; each sees itself only.
struct CalibrationPack {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> types;    // token types, one for each token
  std::vector<std::int64_t> lengths;  // tokens of each text
};

/// What the stacks of a model read. Where it has both, text i of a pack of the decoder answers text
/// i of the same pack of the encoder.
struct CalibrationInputs {
  std::vector<CalibrationPack> encoder;  // none where the model has no encoder
  std::vector<CalibrationPack> decoder;  // none where it has no decoder

  /// Packs of each stack.
  std::size_t size() const { return encoder.empty() ? decoder.size() : encoder.size(); }
  /// Tokens of all packs of all stacks, and those of the longest pack.
  std::int64_t all_tokens() const;
  std::int64_t longest() const;
};

std::int64_t tokens_of(const std::vector<CalibrationPack>& packs);

/// Windows that a decoder without an encoder reads: each a pack of one text.
CalibrationInputs decoder_inputs(const CalibrationWindows& windows);

/// What a model is calibrated on. A decoder: the windows of read_calibration(), or those of
/// sample_calibration() where there is no text. An encoder: read_encoder_texts(). Throws as they
/// do, and kUsage where there is no text for a model with an encoder, which writes none.
CalibrationInputs calibration_inputs(const models::Model& model, const CalibrationOptions& options,
                                     core::ProgressSink& progress);

/// Keys and values of one block of a decoder, of the texts of an encoder's pack.
class PackMemory {
 public:
  PackMemory(const ops::AttentionSpec& spec, const CalibrationPack& source);
  ops::cpu::KvCache* of(std::size_t text) { return caches_[text].get(); }
  std::int64_t rows(std::size_t text) const { return source_.lengths[text]; }

 private:
  const CalibrationPack& source_;
  std::vector<std::unique_ptr<ops::cpu::KvCache>> caches_;
};

/// A pack as a forward pass reads it. The pack and the memory must outlive this.
class PackBatch {
 public:
  /// `memory` may be null: no block attends to an encoder.
  explicit PackBatch(const CalibrationPack& pack, PackMemory* memory = nullptr);
  PackBatch(const PackBatch&) = delete;
  PackBatch& operator=(const PackBatch&) = delete;

  ops::Batch<ops::cpu::KvCache> batch() const {
    return {pack_.tokens, positions_, slices_, pack_.types};
  }

 private:
  const CalibrationPack& pack_;
  std::vector<std::int32_t> positions_;
  std::vector<ops::SequenceSlice<ops::cpu::KvCache>> slices_;
};

}  // namespace nibble::compress
