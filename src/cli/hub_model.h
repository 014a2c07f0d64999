#pragma once

#include <string>

namespace nibble::cli {

/// Where a model lies that a call names. What is there as a file or folder stays as it is. Of
/// "hf:ORG/NAME" (and "@REVISION") it is the folder in the hub's cache; what is missing there is
/// pulled, with progress unless quiet. Of a plain "ORG/NAME" it is that folder if the model is
/// there. Throws kIo where there is no such model, and as hub::pull.
std::string model_place(const std::string& said, bool quiet);

}  // namespace nibble::cli
