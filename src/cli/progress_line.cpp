#include "cli/progress_line.h"

#include <algorithm>

#include <fmt/format.h>

#include "report/text_width.h"

namespace nibble::cli {
namespace {

constexpr std::int64_t kWideBar = 24;
constexpr std::int64_t kNarrowBar = 10;
constexpr std::size_t kLeastNote = 12;  // columns below which a note says nothing

std::string steps(const ProgressState& state) {
  return fmt::format("{}/{}", state.done, state.total);
}

std::string place(const ProgressState& state) {
  return state.parts > 0 ? fmt::format("{} of {}", state.number, state.parts) : "";
}

std::string names(const ProgressState& state) {
  return state.parts > 0 ? fmt::format("{} ({}): {}", state.part, place(state), state.job)
                         : state.job;
}

std::string bar(const ProgressState& state, std::int64_t width) {
  const auto filled = static_cast<std::size_t>(width * state.done / state.total);
  return fmt::format("[{:<{}}]", std::string(filled, '#'), width);
}

std::string times_left(const ProgressState& state) {
  std::string text = state.left ? duration(*state.left) + " left" : "";
  if (state.left_in_all) {
    text += fmt::format("{}{} in all", text.empty() ? "" : ", ", duration(*state.left_in_all));
  }
  return text;
}

std::string shortest_time(const ProgressState& state) {
  const auto left = state.left_in_all ? state.left_in_all : state.left;
  return left ? duration(*left) + " left" : "";
}

std::string all_times(const ProgressState& state) {
  const std::string left = times_left(state);
  return fmt::format("{} elapsed{}{}", duration(state.seconds), left.empty() ? "" : ", ", left);
}

std::string joined(std::initializer_list<std::string> words) {
  std::string line;
  for (const std::string& word : words) {
    line += (line.empty() || word.empty() ? "" : " ") + word;
  }
  return line;
}

}  // namespace

std::string duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole < 60) {
    return fmt::format("{}s", whole);
  }
  return whole < 3600 ? fmt::format("{}m{:02}s", whole / 60, whole % 60)
                      : fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
}

std::string plain_progress(const ProgressState& state) {
  return joined({names(state), steps(state), all_times(state), state.note});
}

std::string bar_progress(const ProgressState& state, std::size_t columns) {
  const std::string all =
      joined({names(state), bar(state, kWideBar), steps(state), all_times(state)});
  const std::string some =
      joined({names(state), bar(state, kNarrowBar), steps(state), times_left(state)});
  for (const std::string& line : {all, some}) {
    const std::size_t width = report::text_width(line);
    const bool has_room =
        width + 1 + std::min(kLeastNote, report::text_width(state.note)) <= columns;
    if (has_room) {
      return joined({line, report::cut_to_width(state.note, columns - width - 1)});
    }
  }
  for (const std::string& line :
       {some, joined({names(state), steps(state), shortest_time(state)}),
        joined({place(state), state.job, steps(state), shortest_time(state)}),
        joined({place(state), steps(state), shortest_time(state)}),
        joined({steps(state), shortest_time(state)})}) {
    if (report::text_width(line) <= columns) {
      return line;
    }
  }
  return report::cut_to_width(steps(state), columns);
}

}  // namespace nibble::cli
