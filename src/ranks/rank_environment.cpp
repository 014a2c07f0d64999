#include "ranks/rank_environment.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>
#include <unistd.h>

#include "core/error.h"

namespace nibble::ranks {
namespace {

using core::ErrorKind;

constexpr int kMostRanks = 1024;
constexpr int kUsualPort = 29500;  // torchrun's

// The variables of one kind of launcher.
struct Launcher {
  const char* rank;
  const char* size;
  const char* local_size;
  std::array<const char*, 2> local_rank;  // the first that is set
};
constexpr std::array<Launcher, 3> kLaunchers = {
    {{"OMPI_COMM_WORLD_RANK",
      "OMPI_COMM_WORLD_SIZE",
      "OMPI_COMM_WORLD_LOCAL_SIZE",
      {"OMPI_COMM_WORLD_LOCAL_RANK", ""}},
     {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", {"MPI_LOCALRANKID", "SLURM_LOCALID"}},
     {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", {"LOCAL_RANK", ""}}}};

std::string_view text_of(const Variables& variables, const char* name) {
  const char* const value = variables(name);
  return value == nullptr ? std::string_view() : value;
}

// The number that a variable holds; nothing where it is not set or empty.
std::optional<int> number_of(const Variables& variables, const char* name, int least, int most) {
  const std::string_view text = text_of(variables, name);
  if (text.empty()) {
    return std::nullopt;
  }
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  core::require(
      error == std::errc() && end == text.data() + text.size() && value >= least && value <= most,
      ErrorKind::kUsage, "{} is '{}', must be a number from {} to {}", name, core::printable(text),
      least, most);
  return value;
}

std::string job_of(const Variables& variables) {
  if (const auto name = text_of(variables, "PMIX_NAMESPACE"); !name.empty()) {
    return std::string(name);
  }
  if (const auto name = text_of(variables, "SLURM_JOB_ID"); !name.empty()) {
    return fmt::format("{}.{}", name, text_of(variables, "SLURM_STEP_ID"));
  }
  return fmt::format("{}", getppid());  // who started this rank started the others of this host
}

// Where ranks of several hosts meet, or where nobody says that all are on this one.
void find_meeting_place(const Variables& variables, RankPlace& place) {
  place.address = text_of(variables, "MASTER_ADDR");
  const int port = number_of(variables, "MASTER_PORT", 1, 65534).value_or(kUsualPort);
  const bool taken = text_of(variables, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  place.port = static_cast<std::uint16_t>(taken ? port + 1 : port);
}

}  // namespace

RankPlace find_place(const Variables& variables) {
  RankPlace place;
  std::optional<int> here;
  std::optional<int> number_here;
  for (const Launcher& launcher : kLaunchers) {
    const auto size = number_of(variables, launcher.size, 1, kMostRanks);
    const auto rank = number_of(variables, launcher.rank, 0, kMostRanks - 1);
    if (!size || !rank) {
      continue;  // half of them: of a launcher that says something else by it
    }
    core::require(*rank < *size, ErrorKind::kUsage, "{} is {}, but {} is {}", launcher.rank, *rank,
                  launcher.size, *size);
    place.rank = *rank;
    place.size = *size;
    place.size_name = launcher.size;
    here = number_of(variables, launcher.local_size, 1, *size);
    for (const char* name : launcher.local_rank) {
      number_here = number_here ? number_here : number_of(variables, name, 0, *size - 1);
    }
    break;
  }
  if (place.alone()) {
    return place;
  }
  place.job = job_of(variables);
  if (here != place.size) {
    find_meeting_place(variables, place);
  }
  place.local_size = here.value_or(place.address.empty() ? place.size : 1);
  place.local_rank = number_here.value_or(place.rank % place.local_size);
  core::require(!place.address.empty() || place.local_size == place.size, ErrorKind::kUsage,
                "{} ranks, {} of them on this host: say where rank 0 is (mpirun -x "
                "MASTER_ADDR=HOST -x MASTER_PORT={} ...)",
                place.size, place.local_size, kUsualPort);
  return place;
}

RankPlace find_place() {
  return find_place([](const char* name) { return std::getenv(name); });
}

}  // namespace nibble::ranks
