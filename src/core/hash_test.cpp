#include "core/hash.h"

#include <vector>

#include <gtest/gtest.h>

namespace nibble::core {
namespace {

// Byte i is (131 i + 7) % 251; values of xxhash 3.x for Python: xxhash.xxh64(data[:n], seed=0).
TEST(Hash, IsXxh64) {
  std::vector<std::byte> bytes(1027);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>((i * 131 + 7) % 251);
  }
  struct Golden {
    std::size_t size;
    std::uint64_t hash;
  };
  constexpr Golden kGoldens[] = {
      {0, 0xef46db3751d8e999},   {1, 0xa96c7f0ce858bbb7},    {3, 0x340815731509cc08},
      {4, 0x5fa711205d86e9da},   {7, 0xc56370b3a8e8a7bb},    {8, 0xdf40710b591268c9},
      {13, 0xa6253b083d7fdf58},  {31, 0xb1f705faa66f113e},   {32, 0xe4d66d9393e3a596},
      {33, 0x2f77e96907a9337b},  {63, 0xdaa92a8f02a3fa78},   {64, 0x7d4e619b9ab28955},
      {100, 0x03e12a53974cdcd9}, {1027, 0x2cbf53aedb39a950},
  };
  for (const Golden& golden : kGoldens) {
    EXPECT_EQ(hash64(std::span(bytes).first(golden.size)), golden.hash) << golden.size;
  }
}

}  // namespace
}  // namespace nibble::core
