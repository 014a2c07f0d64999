#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace nibble::core {

/// What other work took of the processors while this process worked; nullopt where the system does
/// not tell.
struct OtherWork {
  /// CPUs that other processes, the system, and other virtual machines kept busy on average, of
  /// those that this process may use. nullopt also for times too short for the system's clock.
  std::optional<double> busy_cpus;
  /// Of the time in which threads of this process had work to do, the share in which they waited
  /// for a CPU.
  std::optional<double> waited_share;
};

/// From here on other work is more than what every system does beside: it may slow this process.
inline constexpr double kBusyCpus = 0.25;
inline constexpr double kWaitedShare = 0.05;

/// Whether `work` is so much. False where the system does not tell.
bool disturbs(const OtherWork& work);

/// Both at their larger value.
OtherWork larger(const OtherWork& a, const OtherWork& b);

/// Counters of the system, in seconds since some time in the past.
struct CpuCounters {
  double clock = 0;            // wall time
  double own = 0;              // CPU time of this process
  std::optional<double> busy;  // CPU time of everything on its CPUs, and what other machines stole
  std::optional<double> ran;   // of the threads that live: on a CPU
  std::optional<double> waited;  // of the threads that live: ready, but without a CPU
};

/// Counters of this process on `cpus`, out of /proc/stat and the schedstat of its threads.
CpuCounters read_cpu_counters(const std::vector<int>& cpus,
                              const std::filesystem::path& proc = "/proc");

/// What happened between two readings.
OtherWork other_work_between(const CpuCounters& before, const CpuCounters& after);

/// Watches from its making on.
class OtherWorkMeter {
 public:
  OtherWorkMeter();
  OtherWork read() const;

 private:
  std::vector<int> cpus_;
  CpuCounters start_;
};

}  // namespace nibble::core
