#pragma once

#include <span>
#include <vector>

#include "engine/encoder_batch.h"
#include "models/network.h"
#include "ops/gradient/attention_gradient.h"
#include "tune/qat/labelled_texts.h"

namespace nibble::tune {

/// Texts that both networks read together, one after another, without padding.
struct StudentBatch {
  /// Throws kUsage for texts that the network does not read, or that a decoder is to write and that
  /// have no token.
  StudentBatch(const models::Network& network, std::span<const LabelledText* const> texts);

  engine::EncoderBatch read;
  engine::EncoderBatch written;  // by a decoder
  std::vector<ops::gradient::TextRows> read_rows;
  std::vector<ops::gradient::TextRows> written_rows;
  std::vector<ops::gradient::TextRows> memory_rows;
  std::vector<Label> labels;  // for each row of logits
};

}  // namespace nibble::tune
