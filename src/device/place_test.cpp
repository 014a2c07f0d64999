#include "device/place.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace nibble::device {
namespace {

TEST(Place, IsReadAsItIsWritten) {
  EXPECT_EQ(parse_place("cpu"), Place{});
  EXPECT_EQ(parse_place("cuda"), (Place{Kind::kCuda, 0}));
  EXPECT_EQ(parse_place("cuda:0"), (Place{Kind::kCuda, 0}));
  EXPECT_EQ(parse_place("cuda:12"), (Place{Kind::kCuda, 12}));
  for (const char* text : {"cpu", "cuda", "cuda:1", "cuda:7"}) {
    EXPECT_EQ(to_string(parse_place(text)), text);
  }
}

TEST(Place, WhatIsNoDeviceIsRefused) {
  for (const char* text : {"", "gpu", "CUDA", "cuda:", "cuda:-1", "cuda:x", "cuda:1x", "cuda: 1",
                           "cuda:99999", "cpu:0", "cuda1"}) {
    EXPECT_THROW(parse_place(text), core::Error) << text;
  }
}

}  // namespace
}  // namespace nibble::device
