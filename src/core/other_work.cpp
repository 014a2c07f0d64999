#include "core/other_work.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

#include <unistd.h>

#include "core/cpu_topology.h"

namespace nibble::core {
namespace {

namespace fs = std::filesystem;

// The system counts in ticks of 10 ms; of a shorter time they tell little.
constexpr double kLeastSeconds = 0.2;

// "cpu3" as 3; -1 for other words ("cpu" is the sum of all).
int number_of(std::string_view word) {
  int number = -1;
  if (word.starts_with("cpu")) {
    const char* const end = word.data() + word.size();
    const auto [rest, error] = std::from_chars(word.data() + 3, end, number);
    return error == std::errc() && rest == end ? number : -1;
  }
  return -1;
}

// Lines "cpu3 user nice system idle iowait irq softirq steal ..." in ticks (proc(5)); guests are
// in user and nice.
std::optional<double> busy_seconds(const fs::path& file, const std::vector<int>& cpus) {
  std::ifstream stat(file);
  std::int64_t ticks = 0;
  std::size_t found = 0;
  for (std::string line; std::getline(stat, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0;
    if (!(words >> name) || std::find(cpus.begin(), cpus.end(), number_of(name)) == cpus.end() ||
        !(words >> user >> nice >> system >> idle >> iowait >> irq >> softirq)) {
      continue;
    }
    std::int64_t steal = 0;
    words >> steal;
    ticks += user + nice + system + irq + softirq + steal;
    ++found;
  }
  const std::int64_t second = sysconf(_SC_CLK_TCK);
  const bool told = found == cpus.size() && ticks > 0 && second > 0;
  return told ? std::optional(static_cast<double>(ticks) / static_cast<double>(second))
              : std::nullopt;
}

struct ScheduledTime {
  double ran = 0;
  double waited = 0;
};

// Lines "<ns on a CPU> <ns ready> <slices>" of each thread (Documentation/scheduler/sched-stats).
std::optional<ScheduledTime> scheduled_seconds(const fs::path& tasks) {
  ScheduledTime sum;
  bool told = false;
  std::error_code error;
  for (fs::directory_iterator task(tasks, error), end; !error && task != end;
       task.increment(error)) {
    std::ifstream file(task->path() / "schedstat");
    double ran = 0;
    double waited = 0;
    if (file >> ran >> waited) {  // a thread may have ended meanwhile
      sum.ran += ran / 1e9;
      sum.waited += waited / 1e9;
      told = true;
    }
  }
  return told && sum.ran > 0 ? std::optional(sum) : std::nullopt;
}

double own_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

bool disturbs(const OtherWork& work) {
  return work.busy_cpus.value_or(0) >= kBusyCpus || work.waited_share.value_or(0) >= kWaitedShare;
}

OtherWork larger(const OtherWork& a, const OtherWork& b) {
  // nullopt is less than every value
  return {std::max(a.busy_cpus, b.busy_cpus), std::max(a.waited_share, b.waited_share)};
}

CpuCounters read_cpu_counters(const std::vector<int>& cpus, const fs::path& proc) {
  CpuCounters counters;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  counters.clock = std::chrono::duration<double>(now).count();
  counters.own = own_seconds();
  counters.busy = busy_seconds(proc / "stat", cpus);
  if (const auto times = scheduled_seconds(proc / "self" / "task")) {
    counters.ran = times->ran;
    counters.waited = times->waited;
  }
  return counters;
}

OtherWork other_work_between(const CpuCounters& before, const CpuCounters& after) {
  OtherWork work;
  const double seconds = after.clock - before.clock;
  if (before.busy && after.busy && seconds >= kLeastSeconds) {
    const double others = *after.busy - *before.busy - (after.own - before.own);
    work.busy_cpus = std::max(0.0, others / seconds);
  }
  if (before.ran && before.waited && after.ran && after.waited) {
    // A thread that has ended takes its times with it.
    const double ran = std::max(0.0, *after.ran - *before.ran);
    const double waited = std::max(0.0, *after.waited - *before.waited);
    if (ran + waited > 0) {
      work.waited_share = waited / (ran + waited);
    }
  }
  return work;
}

OtherWorkMeter::OtherWorkMeter() : cpus_(allowed_cpus()), start_(read_cpu_counters(cpus_)) {}

OtherWork OtherWorkMeter::read() const {
  return other_work_between(start_, read_cpu_counters(cpus_));
}

}  // namespace nibble::core
