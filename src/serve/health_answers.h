#pragma once

#include <string>

#include "serve/http_message.h"

namespace nibble::serve {

/// Of /health and /readyz. `state`: "ok", which alone is status 200, "loading", "draining",
/// "failing" (what was computed last failed) or "failed" (for good). `reason`: why, where that is
/// known.
HttpResponse health_answer(const std::string& state, const std::string& reason = "");

/// Of /livez: whether a restart would not help.
HttpResponse live_answer(bool lives);

}  // namespace nibble::serve
