#pragma once

#include "models/family.h"

/// Gemma (arXiv 2403.08295), Gemma 2 (arXiv 2408.00118) and the text part of Gemma 3 (arXiv
/// 2503.19786). Norms are stored less 1, and embeddings are scaled by the root of their width.
/// Gemma 2 has norms behind its layers too, soft-capped scores and logits, and a sliding window in
/// every other layer; Gemma 3 has norms of queries and keys in place of the caps, and a rotation of
/// their own for the layers with a window.
namespace nibble::models::gemma {

Family gemma();
Family gemma2();
Family gemma3_text();
/// A folder with images beside text, whose vision tensors are left out.
Family gemma3();

}  // namespace nibble::models::gemma
