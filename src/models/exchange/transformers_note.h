#pragma once

namespace nibble::models {

/// transformers takes the key for the name of the file of weights. Without a quantizer for folders
/// in Nibble's format it would give the layers random weights; now it ends with this in its
/// message. The quantizer of python/nibble/transformers.py removes the key.
inline constexpr const char* kTransformersKey = "transformers_weights";
inline constexpr const char* kTransformersNote =
    "none that transformers reads: the weights are packed by nibble; import nibble.transformers "
    "first, or write a plain folder with nibble convert --to hf";

}  // namespace nibble::models
