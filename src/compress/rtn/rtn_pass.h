#pragma once

#include "compress/pass.h"

namespace nibble::compress {

/// "rtn": round to nearest with the format's own parameters. Needs no calibration text.
PassFactory rtn_pass();

}  // namespace nibble::compress
