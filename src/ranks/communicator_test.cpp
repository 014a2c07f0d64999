#include "ranks/communicator.h"

#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ranks/join.h"

namespace nibble::ranks {
namespace {

using Numbers = std::vector<std::int32_t>;
using Work = std::function<void(Communicator&)>;

std::span<const std::byte> bytes_of(const Numbers& numbers) {
  return std::as_bytes(std::span(numbers));
}

// A port of this host that was free a moment ago.
std::uint16_t free_port() {
  const int probe = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(probe, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(probe);
  return ntohs(address.sin_port);
}

// Where the ranks of a test meet: by a name of this host, or by TCP.
RankPlace place_of(int rank, int size, std::uint16_t port) {
  RankPlace place;
  place.rank = rank;
  place.size = place.local_size = size;
  place.job = "test-" + std::to_string(getpid());
  if (port != 0) {
    place.address = "127.0.0.1";
    place.port = port;
  }
  return place;
}

// Runs `work` in a process for each rank but 0, which is this one; returns their exit codes. A rank
// whose work throws RankEnded exits with 10 + the rank that ended, 20 where it said so.
std::vector<int> run_ranks(int size, bool tcp, const Work& work) {
  const std::uint16_t port = tcp ? free_port() : 0;
  std::vector<RankPlace> places;
  for (int rank = 0; rank < size; ++rank) {
    places.push_back(place_of(rank, size, port));
  }
  std::vector<pid_t> children;
  for (int rank = 1; rank < size; ++rank) {
    children.push_back(fork());
    if (children.back() == 0) {
      int code = 1;
      try {
        const auto communicator = join(places[static_cast<std::size_t>(rank)]);
        work(*communicator);
        code = testing::Test::HasFailure() ? 2 : 0;
      } catch (const RankEnded& ended) {
        code = (ended.how() == End::kDied ? 10 : 20) + ended.rank();
      } catch (const std::exception&) {
        code = 3;
      }
      _exit(code);
    }
  }
  try {
    const auto communicator = join(places[0]);
    work(*communicator);
  } catch (const core::Error& error) {
    ADD_FAILURE() << error.what();
  }
  std::vector<int> codes;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  }
  return codes;
}

// What rank r gives in these tests, of another length on each.
Numbers given_by(int rank, std::int32_t length) {
  Numbers numbers(static_cast<std::size_t>(length * (rank + 1)));
  std::iota(numbers.begin(), numbers.end(), 1000 * rank);
  return numbers;
}

void gather_and_check(Communicator& ranks, std::int32_t length, bool all) {
  std::vector<Numbers> taken;
  std::vector<std::span<std::byte>> places;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    taken.emplace_back(static_cast<std::size_t>(length * (rank + 1)), -1);
  }
  for (Numbers& numbers : taken) {
    places.push_back(std::as_writable_bytes(std::span(numbers)));
  }
  const Numbers mine = given_by(ranks.rank(), length);
  all ? ranks.all_gather(bytes_of(mine), places) : ranks.gather(bytes_of(mine), places);
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const bool takes = rank != ranks.rank() && (all || ranks.rank() == 0);
    const Numbers& got = taken[static_cast<std::size_t>(rank)];
    EXPECT_EQ(got, takes ? given_by(rank, length) : Numbers(got.size(), -1)) << "of rank " << rank;
  }
}

void do_everything(Communicator& ranks) {
  for (const std::int32_t length : {0, 1, 7, 100'000, 700'000}) {  // more than sockets hold
    gather_and_check(ranks, length, true);
    gather_and_check(ranks, length, false);
  }
  for (const std::size_t length : {0, 3, 5'000'000}) {
    std::vector<std::byte> message;
    if (ranks.rank() == 0) {
      message.assign(length, std::byte{42});
    }
    ranks.broadcast(message);
    EXPECT_EQ(message, std::vector<std::byte>(length, std::byte{42}));
  }
  gather_and_check(ranks, 5, true);  // the last has all, so none goes before others are done
}

TEST(Communicator, GathersAndBroadcastsOnOneHost) {
  for (const int size : {2, 3, 4}) {
    EXPECT_EQ(run_ranks(size, false, do_everything),
              std::vector(static_cast<std::size_t>(size - 1), 0));
  }
}

TEST(Communicator, GathersAndBroadcastsOverTcp) {
  for (const int size : {2, 4}) {
    EXPECT_EQ(run_ranks(size, true, do_everything),
              std::vector(static_cast<std::size_t>(size - 1), 0));
  }
}

TEST(Communicator, SeesThatARankHasDied) {
  for (const bool tcp : {false, true}) {
    const auto codes = run_ranks(3, tcp, [](Communicator& ranks) {
      gather_and_check(ranks, 3, true);
      if (ranks.rank() == 1) {
        _exit(77);  // without a word
      }
      if (ranks.rank() == 2) {
        gather_and_check(ranks, 3, true);
        return;
      }
      try {
        gather_and_check(ranks, 3, true);
        ADD_FAILURE() << "rank 1 was not missed";
      } catch (const RankEnded& ended) {
        EXPECT_EQ(ended.rank(), 1);
        EXPECT_EQ(ended.how(), End::kDied);
        EXPECT_STREQ(ended.what(), "rank 1 of 3 has died, or its host is gone");
        EXPECT_EQ(ranks.lost(), 1);
        EXPECT_TRUE(ranks.has_ended(1));
        EXPECT_FALSE(ranks.has_ended(0)) << "this rank itself";
      }
    });
    EXPECT_EQ(codes[0], 77);
    EXPECT_TRUE(codes[1] == 11 || codes[1] == 20) << "it saw rank 1 go, or rank 0 by that";
  }
}

TEST(Communicator, TellsWhyARankEnds) {
  const auto codes = run_ranks(3, false, [](Communicator& ranks) {
    if (ranks.rank() == 2) {
      ranks.leave(core::ErrorKind::kOutOfMemory, "rank 2: no memory");
      return;
    }
    try {
      gather_and_check(ranks, 100'000, true);
      ADD_FAILURE() << "rank 2 was not missed";
    } catch (const RankEnded& ended) {
      EXPECT_EQ(ended.kind(), core::ErrorKind::kOutOfMemory);
      EXPECT_STREQ(ended.what(), "rank 2: no memory");
      EXPECT_EQ(ended.how(), End::kFailed);
    }
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 0}));
}

TEST(Communicator, RefusesRanksThatAreOutOfStep) {
  const auto codes = run_ranks(2, false, [](Communicator& ranks) {
    const Numbers mine(ranks.rank() == 0 ? 3 : 4);
    Numbers other(3);
    const std::vector<std::span<std::byte>> places(2, std::as_writable_bytes(std::span(other)));
    if (ranks.rank() == 1) {
      ranks.all_gather(bytes_of(mine), places);
      return;
    }
    try {
      ranks.all_gather(bytes_of(mine), places);
      ADD_FAILURE() << "4 numbers were taken for 3";
    } catch (const core::Error& error) {
      EXPECT_NE(std::string(error.what()).find("out of step"), std::string::npos);
    }
  });
  EXPECT_EQ(codes, std::vector<int>{0});
}

}  // namespace
}  // namespace nibble::ranks
