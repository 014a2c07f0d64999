#pragma once

#include <nibble/nibble.h>

#include "engine/request.h"
#include "engine/writing_options.h"
#include "models/model.h"

namespace nibble::capi {

nibble_generate_options default_generate_options();

/// What the options say of a text that a decoder writes, without a prompt. Throws kUsage for
/// options of encoder-decoders, for several grammars, and for a grammar that is none.
engine::Request request_of(const nibble_generate_options& options);

/// How an encoder-decoder writes: as the model says, but for what the options say. Throws kUsage
/// for options of decoders, and as engine::validate().
engine::WritingOptions writing_of(const nibble_generate_options& options,
                                  const models::Model& model);

}  // namespace nibble::capi
