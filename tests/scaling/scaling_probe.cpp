// How the work of every path that reads untrusted text or files grows with its input. Used by
// tools/check_scaling.py, which also sets GLIBC_TUNABLES; without them page faults count too.
//
//   scaling_probe                    names of all cases, one a line
//   scaling_probe FIRST STEP RUNS    measures each STEP-th case from FIRST on
//   scaling_probe NAME RUNS          measures one
//
// A measurement is a line: name, size, seconds for half the size, for the size and for twice the
// size; tabs lie between. Seconds are of the thread's processor time, the least of RUNS runs. A
// case that throws what is no refusal is named on stderr; the others are measured all the same.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>

#include "core/error.h"
#include "scaling/scaling_case.h"

namespace nibble::scaling {
namespace {

constexpr std::size_t kFirstSize = 4096;
constexpr double kEnoughSeconds = 0.02;  // a size that takes as long is large enough
constexpr double kLeastSeconds = 0.002;  // of one timing; shorter work is repeated

double thread_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// False when the input is refused.
bool do_once(const Work& work) {
  try {
    work();
    return true;
  } catch (const core::Error&) {
    return false;
  }
}

double seconds_of(const Work& work) {
  const double begin = thread_seconds();
  double seconds = 0;
  int rounds = 0;
  while (seconds < kLeastSeconds) {
    (void)do_once(work);
    ++rounds;
    seconds = thread_seconds() - begin;
  }
  return seconds / rounds;
}

struct Trial {
  double seconds;
  bool accepted;
};

Trial try_once(const Case& each, std::size_t size) {
  const Work work = each.prepare(size);
  const double begin = thread_seconds();
  const bool accepted = do_once(work);
  return {thread_seconds() - begin, accepted};
}

// The size from which on one run for twice the size takes long enough to be timed. Where larger
// inputs are refused, the largest that is not: a refusal ends the work early and hides its growth.
std::size_t size_to_time(const Case& each) {
  std::size_t size = kFirstSize;
  Trial trial = try_once(each, 2 * size);
  while (4 * size <= each.most && trial.seconds < kEnoughSeconds) {
    const Trial next = try_once(each, 4 * size);
    if (trial.accepted && !next.accepted) {
      break;
    }
    trial = next;
    size *= 2;
  }
  return size;
}

// The sizes take turns, so that what else the machine does slows down all of them.
void measure(const Case& each, int runs) {
  const std::size_t size = size_to_time(each);
  const std::array<Work, 3> works = {each.prepare(size / 2), each.prepare(size),
                                     each.prepare(2 * size)};
  std::array<double, 3> seconds = {};
  for (int run = 0; run < runs; ++run) {
    for (std::size_t i = 0; i < works.size(); ++i) {
      const double now = seconds_of(works[i]);
      seconds[i] = run == 0 ? now : std::min(seconds[i], now);
    }
  }
  std::printf("%s\t%zu\t%.9f\t%.9f\t%.9f\n", each.name.c_str(), size, seconds[0], seconds[1],
              seconds[2]);
  std::fflush(stdout);
}

bool is_measured(const Case& each, int runs) {
  try {
    measure(each, runs);
    return true;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", each.name.c_str(), error.what());
    return false;
  }
}

// What the check must let pass, and what it must find.
void add_planted_cases(Cases& cases) {
  cases.push_back({"planted: linear", [](std::size_t size) {
                     return [text = std::string(size, 'a')] {
                       volatile std::size_t found = std::count(text.begin(), text.end(), 'b');
                       (void)found;
                     };
                   }});
  cases.push_back({"planted: quadratic", [](std::size_t size) {
                     return [size] {
                       std::string text;
                       for (std::size_t i = 0; i < size; ++i) {
                         text.insert(text.begin(), 'a');
                       }
                     };
                   }});
}

Cases all_cases() {
  Cases cases;
  add_planted_cases(cases);
  add_tokenizer_cases(cases);
  add_chat_cases(cases);
  add_grammar_cases(cases);
  add_file_cases(cases);
  add_request_cases(cases);
  return cases;
}

bool is_number(std::string_view text, int& value) {
  const char* end = text.data() + text.size();
  return std::from_chars(text.data(), end, value).ptr == end;
}

int run(const std::vector<std::string_view>& arguments) {
  const Cases cases = all_cases();
  int first = 0;
  int step = 1;
  int runs = 1;
  if (arguments.empty()) {
    for (const Case& each : cases) {
      std::printf("%s\n", each.name.c_str());
    }
    return 0;
  }
  if (arguments.size() == 3 && is_number(arguments[0], first) && is_number(arguments[1], step) &&
      is_number(arguments[2], runs) && first >= 0 && step > 0) {
    bool all_measured = true;
    for (auto at = static_cast<std::size_t>(first); at < cases.size();
         at += static_cast<std::size_t>(step)) {
      all_measured = is_measured(cases[at], runs) && all_measured;
    }
    return all_measured ? 0 : 1;
  }
  const auto named = std::find_if(cases.begin(), cases.end(),
                                  [&](const Case& each) { return each.name == arguments[0]; });
  if (arguments.size() != 2 || named == cases.end() || !is_number(arguments[1], runs)) {
    std::fputs("scaling_probe: say nothing, FIRST STEP RUNS, or NAME RUNS\n", stderr);
    return 2;
  }
  return is_measured(*named, runs) ? 0 : 1;
}

}  // namespace
}  // namespace nibble::scaling

int main(int argc, char** argv) {
  return nibble::scaling::run({argv + 1, argv + argc});
}
