#include "ranks/rank_environment.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "core/error.h"

namespace nibble::ranks {
namespace {

using Values = std::map<std::string, std::string>;

RankPlace place_of(const Values& values) {
  return find_place([&values](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  });
}

std::string refusal_of(const Values& values) {
  try {
    place_of(values);
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST(RankEnvironment, IsAloneWhereNobodySaysOtherwise) {
  EXPECT_TRUE(place_of({}).alone());
  EXPECT_TRUE(place_of({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}).alone());
  EXPECT_TRUE(place_of({{"WORLD_SIZE", "4"}}).alone()) << "nobody says which of the four it is";
}

TEST(RankEnvironment, ReadsWhatLaunchersSay) {
  const RankPlace open_mpi = place_of({{"OMPI_COMM_WORLD_RANK", "1"},
                                       {"OMPI_COMM_WORLD_SIZE", "4"},
                                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                       {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                                       {"PMIX_NAMESPACE", "prterun-17@1"}});
  EXPECT_EQ(open_mpi.rank, 1);
  EXPECT_EQ(open_mpi.local_rank, 2);
  EXPECT_EQ(open_mpi.size, 4);
  EXPECT_EQ(open_mpi.local_size, 4);
  EXPECT_EQ(open_mpi.job, "prterun-17@1");
  EXPECT_EQ(open_mpi.size_name, "OMPI_COMM_WORLD_SIZE");
  EXPECT_TRUE(open_mpi.address.empty());

  const RankPlace mpich = place_of({{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}});
  EXPECT_EQ(mpich.rank, 2);
  EXPECT_EQ(mpich.local_size, 3) << "where nothing is said, all are on this host";
  EXPECT_EQ(mpich.local_rank, 2);
  EXPECT_EQ(place_of({{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}, {"SLURM_LOCALID", "1"}}).local_rank, 1);

  const RankPlace torchrun = place_of({{"RANK", "5"},
                                       {"WORLD_SIZE", "8"},
                                       {"LOCAL_WORLD_SIZE", "4"},
                                       {"MASTER_ADDR", "10.0.0.7"},
                                       {"MASTER_PORT", "1234"}});
  EXPECT_EQ(torchrun.rank, 5);
  EXPECT_EQ(torchrun.local_size, 4);
  EXPECT_EQ(torchrun.local_rank, 1) << "ranks 4 to 7 are those of the second host";
  EXPECT_EQ(torchrun.address, "10.0.0.7");
  EXPECT_EQ(torchrun.port, 1234);
}

TEST(RankEnvironment, MeetsByNameWhereAllAreOnOneHost) {
  Values values = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "9"}};
  EXPECT_EQ(place_of(values).address, "h") << "nobody says that both are here";
  EXPECT_EQ(place_of(values).local_size, 1);
  values["LOCAL_WORLD_SIZE"] = "2";
  EXPECT_EQ(place_of(values).address, "");
  EXPECT_EQ(place_of(values).local_size, 2);
}

TEST(RankEnvironment, LeavesThePortThatTorchrunListensAt) {
  const Values values = {
      {"RANK", "1"},        {"WORLD_SIZE", "2"},     {"LOCAL_WORLD_SIZE", "1"},
      {"MASTER_ADDR", "h"}, {"MASTER_PORT", "1234"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  EXPECT_EQ(place_of(values).port, 1235);
}

TEST(RankEnvironment, RefusesWhatIsNoNumberOrNoPlace) {
  EXPECT_EQ(refusal_of({{"RANK", "one"}, {"WORLD_SIZE", "2"}}),
            "RANK is 'one', must be a number from 0 to 1023");
  EXPECT_EQ(refusal_of({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), "RANK is 2, but WORLD_SIZE is 2");
  EXPECT_EQ(refusal_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "0"}}),
            "MASTER_PORT is '0', must be a number from 1 to 65534");
  EXPECT_EQ(refusal_of({{"RANK", "0"}, {"WORLD_SIZE", "1e9"}}),
            "WORLD_SIZE is '1e9', must be a number from 1 to 1024");
}

TEST(RankEnvironment, AsksWhereRankZeroIsOnSeveralHosts) {
  EXPECT_NE(refusal_of({{"OMPI_COMM_WORLD_RANK", "1"},
                        {"OMPI_COMM_WORLD_SIZE", "4"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})
                .find("MASTER_ADDR"),
            std::string::npos);
}

}  // namespace
}  // namespace nibble::ranks
