#pragma once

#include "models/model.h"

namespace nibble::engine {

/// Throws kUsage for a model with an encoder, and says what takes it: a Runner continues texts.
void require_continues_texts(const models::Model& model);

}  // namespace nibble::engine
