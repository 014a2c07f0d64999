#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "load_test/workload.h"

namespace nibble::load_test {

/// What is asked of a server that speaks OpenAI's completions API.
struct LoadOptions {
  std::string url;               // "http://127.0.0.1:8080", with or without /v1
  std::string api_key;           // empty: none
  std::string model;             // empty: the first one that the server names
  std::int64_t concurrency = 0;  // requests at a time; 0 with a rate: no bound
  double cancel_share = 0;       // of the requests, given up at a random time
  double temperature = 0;        // of the requests
  Workload workload;
};

/// Of one request; times in seconds.
struct RequestOutcome {
  double sent = 0;                 // after the start of the load
  double first_token = 0;          // after it was sent; 0: none came
  double end = 0;                  // after it was sent
  std::vector<double> gaps;        // between pieces of text that came
  std::int64_t prompt_tokens = 0;  // as the server counts them
  std::int64_t output_tokens = 0;
  bool cancelled = false;  // by us
  std::string error;       // empty: it was served
};

struct LoadResult {
  std::vector<RequestOutcome> requests;
  double seconds = 0;  // from the first request to the last answer
};

/// Sends the load and waits for the last answer. `progress` is called with the number of requests
/// that have ended. Throws kFailed when the server cannot be reached at all.
LoadResult run_load(const LoadOptions& options, const std::function<void(std::int64_t)>& progress);

}  // namespace nibble::load_test
