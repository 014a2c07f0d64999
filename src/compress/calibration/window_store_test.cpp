#include "compress/calibration/window_store.h"

#include <csignal>
#include <cstring>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "core/random.h"
#include "io/temporary_folder_for_tests.h"

namespace nibble::compress {
namespace {

namespace fs = std::filesystem;
using ops::cpu::CpuOps;
using ops::cpu::Matrix;

Matrix random_matrix(CpuOps& ops, std::int64_t rows, std::uint64_t seed) {
  core::Random random(seed);
  Matrix x = ops.matrix(rows, 24);
  for (std::int64_t i = 0; i < rows * 24; ++i) {
    x.data()[i] = static_cast<float>(random.uniform()) - 0.5f;
  }
  return x;
}

bool same_bits(const Matrix& a, const Matrix& b) {
  return a.rows() == b.rows() && a.columns() == b.columns() &&
         std::memcmp(a.data(), b.data(), a.values().size_bytes()) == 0;
}

TEST(WindowStore, GivesBackWhatWasWritten) {
  const io::TemporaryFolder folder;
  CpuOps ops({1, ops::ActivationPrecision::kFloat});
  for (const bool in_file : {false, true}) {
    WindowStore store(in_file ? std::optional(folder.path()) : std::nullopt);
    EXPECT_EQ(store.is_file(), in_file);
    for (std::uint64_t i = 0; i < 5; ++i) {
      store.add(random_matrix(ops, 3 + static_cast<std::int64_t>(i), i));
    }
    ASSERT_EQ(store.size(), 5u);
    store.write(1, random_matrix(ops, 4, 77));
    store.write(4, random_matrix(ops, 7, 78));
    for (std::uint64_t i = 0; i < 5; ++i) {
      const std::uint64_t seed = i == 1 ? 77 : i == 4 ? 78 : i;
      const Matrix expected = random_matrix(ops, 3 + static_cast<std::int64_t>(i), seed);
      EXPECT_TRUE(same_bits(store.read(i, ops), expected)) << i;
      EXPECT_TRUE(same_bits(store.read(i, ops), expected)) << "a second time";
    }
    EXPECT_TRUE(fs::is_empty(folder.path()))
        << "the file has no name that a kill could leave behind";
  }
}

TEST(WindowStore, SaysWhereItCannotWrite) {
  const io::TemporaryFolder folder;
  CpuOps ops({1, ops::ActivationPrecision::kFloat});
  io::expect_error(core::ErrorKind::kIo, {folder.path().string()},
                   [&] { WindowStore store(folder / "nowhere"); });
  struct rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {1000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  {
    WindowStore store(folder.path());
    store.add(random_matrix(ops, 2, 1));
    io::expect_error(core::ErrorKind::kIo, {folder.path().string()},
                     [&] { store.add(random_matrix(ops, 100, 2)); });
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace nibble::compress
