#pragma once

#include "compress/calibration/calibration_inputs.h"

namespace nibble::compress {

/// The texts that a model with an encoder is calibrated on, in packs of whole texts. A pack has at
/// most seq_len tokens of each stack, and there are at most `samples` packs.
///
/// A line of options.texts is a text, framed as the model wants (text::encode_for_model). A tab
/// divides it: an encoder reads the first two columns as a pair; of an encoder-decoder the encoder
/// reads the first, and the decoder its start token and the second. Where the first line is a
/// header of GLUE's files ("sentence", "premise", ...) its columns of sentences are taken. Lines
/// are taken from each file in turn; empty ones are left out, longer ones than a pack cut.
///
/// Throws kUsage when there is no text, and for a line without a second column where the model is
/// an encoder-decoder.
CalibrationInputs read_encoder_texts(const models::Model& model, const CalibrationOptions& options);

}  // namespace nibble::compress
