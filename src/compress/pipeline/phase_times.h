#pragma once

#include <chrono>
#include <map>
#include <string>

#include <fmt/format.h>

namespace nibble::compress {

/// How long the parts of a job take.
class PhaseTimes {
 public:
  /// Adds the seconds that it lives to those of a name.
  class Phase {
   public:
    Phase(PhaseTimes& times, const std::string& name) : sum_(times.seconds_[name]) {}
    ~Phase() { sum_ += since(start_); }
    Phase(const Phase&) = delete;
    Phase& operator=(const Phase&) = delete;

   private:
    double& sum_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  };

  /// "seconds: awq 2.1, forward 1.1, rest 2.6".
  std::string line() const {
    double rest = since(start_);
    std::string result = "seconds: ";
    for (const auto& [name, seconds] : seconds_) {
      result += fmt::format("{} {:.1f}, ", name, seconds);
      rest -= seconds;
    }
    return result + fmt::format("rest {:.1f}", rest);
  }

 private:
  static double since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  std::map<std::string, double> seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace nibble::compress
