#pragma once

#include "models/exchange/conversion.h"

namespace nibble::models {

/// Writes `model` as a GGUF file that llama.cpp loads: symmetric integers of up to 4 bits become
/// Q4_0 and those of 8 bits Q8_0, exactly where groups are multiples of 32; asymmetric ones Q4_1,
/// whose products of scale and zero point are rounded; blocks of 256 weights stay what they are;
/// all other codes are rounded anew, and plain numbers stay in their type. Vectors are F32.
///
/// Throws kIo when the file exists, and as gguf_architecture(), vocabulary_of() and
/// gguf_type_of().
Conversion convert_gguf(const Model& model, const std::filesystem::path& target,
                        const ConversionOptions& options, core::ProgressSink& progress);

}  // namespace nibble::models
