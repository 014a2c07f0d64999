#include "compress/calibration/calibration_inputs.h"

#include <algorithm>
#include <numeric>

#include "compress/calibration/encoder_texts.h"
#include "core/error.h"

namespace nibble::compress {

using ops::cpu::KvCache;

std::int64_t tokens_of(const std::vector<CalibrationPack>& packs) {
  std::int64_t sum = 0;
  for (const CalibrationPack& pack : packs) {
    sum += std::ssize(pack.tokens);
  }
  return sum;
}

std::int64_t CalibrationInputs::all_tokens() const {
  return tokens_of(encoder) + tokens_of(decoder);
}

std::int64_t CalibrationInputs::longest() const {
  std::int64_t most = 0;
  for (const auto* packs : {&encoder, &decoder}) {
    for (const CalibrationPack& pack : *packs) {
      most = std::max<std::int64_t>(most, std::ssize(pack.tokens));
    }
  }
  return most;
}

CalibrationInputs decoder_inputs(const CalibrationWindows& windows) {
  CalibrationInputs inputs;
  for (const auto& window : windows) {
    inputs.decoder.push_back(
        {window, std::vector<std::int32_t>(window.size()), {std::ssize(window)}});
  }
  return inputs;
}

CalibrationInputs calibration_inputs(const models::Model& model, const CalibrationOptions& options,
                                     core::ProgressSink& progress) {
  if (model.network.has_encoder()) {
    return read_encoder_texts(model, options);
  }
  return decoder_inputs(options.texts.empty() ? sample_calibration(model, options, progress)
                                              : read_calibration(model, options));
}

PackMemory::PackMemory(const ops::AttentionSpec& spec, const CalibrationPack& source)
    : source_(source) {
  for (const std::int64_t rows : source.lengths) {
    caches_.push_back(
        std::make_unique<KvCache>(ops::KvType::kF32, 1, spec.kv_heads, spec.head_dim, rows));
  }
}

PackBatch::PackBatch(const CalibrationPack& pack, PackMemory* memory) : pack_(pack) {
  for (const std::int64_t rows : pack.lengths) {
    ops::SequenceSlice<KvCache> slice{nullptr, 0, std::ssize(positions_), rows};
    if (memory != nullptr) {
      slice.memory = memory->of(slices_.size());
      slice.memory_rows = memory->rows(slices_.size());
    }
    slices_.push_back(slice);
    positions_.resize(positions_.size() + static_cast<std::size_t>(rows));
    std::iota(positions_.end() - rows, positions_.end(), 0);
  }
}

}  // namespace nibble::compress
