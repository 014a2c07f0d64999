#pragma once

#include "compress/recipe/pass.h"

namespace nibble::compress {

/// "trellis": trellis codes by Viterbi's algorithm, inside the feedback of GPTQ. Options damp
/// (0.01), loss ("layer"; "model": tokens count by how much the model's loss depends on them).
extern const PassFactory kTrellisPass;

}  // namespace nibble::compress
