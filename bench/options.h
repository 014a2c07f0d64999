#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/error.h"
#include "measure.h"

/// What the benchmark programs share of their command lines: "--name value", any number of times.
namespace nibble::bench {

/// Calls take(name, value) for each option. Throws kUsage where the last has no value.
template <class Take>
void for_options(int argc, char** argv, const Take& take) {
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    core::require(i + 1 < argc, core::ErrorKind::kUsage, "{} needs a value", name);
    take(name, std::string(argv[i + 1]));
  }
}

/// At least 1.
inline int positive(const std::string& text) {
  return std::max(1, std::atoi(text.c_str()));
}

/// "1,4,64", each at least 1.
inline std::vector<std::int64_t> counts(const std::string& text) {
  std::vector<std::int64_t> all;
  for (const std::string& part : split(text)) {
    all.push_back(positive(part));
  }
  return all;
}

/// The exit code of a program that does `work`; an error is named on stderr.
template <class Work>
int run_program(const char* name, const Work& work) {
  try {
    work();
    return 0;
  } catch (const core::Error& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return static_cast<int>(error.kind());
  }
}

}  // namespace nibble::bench
