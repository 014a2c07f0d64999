#pragma once

#include <filesystem>
#include <string>

namespace nibble::core {

/// What Linux calls the processor ("AMD EPYC 9654 96-Core Processor"); "unknown processor" where it
/// says nothing.
std::string cpu_name(const std::filesystem::path& information = "/proc/cpuinfo");

}  // namespace nibble::core
