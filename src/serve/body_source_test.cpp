#include "serve/body_source.h"

#include <gtest/gtest.h>

#include "serve/http_output.h"

namespace nibble::serve {
namespace {

TEST(BodySections, ComeInOrder) {
  BodySections body;
  body.text("[").each(3, [](std::size_t i, std::string& part) { part += std::to_string(i); });
  body.each(0, nullptr).text("]").each(2, [](std::size_t i, std::string& part) {
    part += i == 0 ? "a" : "b";
  });
  std::string all = "> ";
  EXPECT_FALSE(body.append(all)) << "one part is enough";
  EXPECT_EQ(all, "> [012]ab");
}

TEST(BodySections, AreMadeInSmallParts) {
  constexpr std::size_t kItems = 1'000'000;
  BodySections body;
  std::size_t made = 0;
  body.each(kItems, [&](std::size_t i, std::string& part) {
    EXPECT_EQ(i, made);
    ++made;
    part += i % 100 == 0 ? "ten bytes\n" : "";  // most items write nothing
  });
  std::size_t bytes = 0;
  std::size_t parts = 1;
  bool more = true;
  for (; more; ++parts) {
    const std::size_t before = made;
    std::string part;
    more = body.append(part);
    bytes += part.size();
    ASSERT_LE(part.size(), 70u << 10);
    ASSERT_LE(made - before, 5000u) << "the I/O thread is not held up";
  }
  EXPECT_EQ(bytes, kItems / 100 * 10);
  EXPECT_EQ(made, kItems);
}

TEST(BodySections, KeepWhatTheyReferTo) {
  auto data = std::make_shared<const std::string>(100'000, 'x');
  const std::weak_ptr<const std::string> seen = data;
  auto body = std::make_unique<BodySections>();
  body->keep(data, data->size());
  body->each(2, [kept = data.get()](std::size_t, std::string& part) { part += *kept; });
  data.reset();
  EXPECT_EQ(body->held_bytes(), 100'000u);
  std::string part;
  EXPECT_TRUE(body->append(part));
  EXPECT_FALSE(seen.expired());
  body.reset();
  EXPECT_TRUE(seen.expired());
}

std::string written(HttpOutput& output, std::size_t at_once) {
  std::string all;
  for (std::string_view front = output.front(); !front.empty() || output.has_source();
       front = output.front()) {
    const std::size_t bytes = std::min(front.size(), at_once);
    all += front.substr(0, bytes);
    output.take(bytes);
  }
  return all;
}

// Whatever the socket takes at a time.
TEST(HttpOutput, WritesBytesAndThenASource) {
  for (const std::size_t at_once : {1u, 7u, 1000u}) {
    for (const bool chunked : {false, true}) {
      auto body = std::make_shared<BodySections>();
      body->text("abc").each(5000, [](std::size_t, std::string&) {}).text("def");
      HttpOutput output;
      output.append("head\n");
      output.append(body, chunked);
      EXPECT_EQ(output.size(), 5u);
      EXPECT_EQ(written(output, at_once),
                chunked ? "head\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n" : "head\nabcdef");
      EXPECT_EQ(output.held_bytes(), 0u);
      output.append("next");
      EXPECT_EQ(written(output, at_once), "next");
    }
  }
}

}  // namespace
}  // namespace nibble::serve
