#pragma once

#include "compress/pass.h"

namespace nibble::compress {

/// "gptq": options damp (0.01), act_order (true: descending diagonal of the Hessian).
PassFactory gptq_pass();

}  // namespace nibble::compress
