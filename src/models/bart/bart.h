#pragma once

#include "models/family.h"

/// Encoder-decoders with learned positions: BART (arXiv 1910.13461), with norms behind its layers,
/// and mBART (arXiv 2001.08210), with norms before them and behind each stack.
namespace nibble::models::bart {

Family bart();
Family mbart();

}  // namespace nibble::models::bart
