// Damaged files: every prefix and thousands of flipped bytes of small files either load or give an
// Error, and nothing else. Files in memory have exactly their size on the heap, so that the address
// sanitizer sees every read outside of them.
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.h"
#include "io/allocation_counter_for_tests.h"
#include "io/gguf.h"
#include "io/gguf_writer_for_tests.h"
#include "io/json_file.h"
#include "io/safetensors.h"
#include "io/temporary_folder_for_tests.h"
#include "io/tensor_store.h"
#include "io/text_file.h"

namespace nibble::io {
namespace {

using core::ErrorKind;

constexpr int kFlips = 10000;

// What came of one file.
enum class Outcome { kLoaded, kRefused };

// Sums all bytes, so that each of them is read.
std::int64_t touch(const core::Tensor& tensor) {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < tensor.bytes(); ++i) {
    sum += static_cast<std::int64_t>(tensor.raw()[i]);
  }
  return sum;
}

template <typename File>
void load_all(const File& file, const std::vector<std::string>& names) {
  static volatile std::int64_t sink = 0;
  for (const std::string& name : names) {
    try {
      sink = sink + touch(file.tensor(name));
    } catch (const core::Error& error) {  // a type that is valid but not supported
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidModel) << error.what();
    }
  }
}

template <typename Load>
Outcome outcome_of(Load load) {
  try {
    load();
    return Outcome::kLoaded;
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidModel) << error.what();
    EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos) << error.what();
    return Outcome::kRefused;
  }
}

Outcome load_safetensors(std::string_view bytes) {
  return outcome_of([&] {
    const HeapBytes heap(bytes);
    const auto file = SafetensorsFile::parse("x.safetensors", heap.span, heap.memory);
    load_all(*file, file->names());
  });
}

Outcome load_gguf(std::string_view bytes) {
  return outcome_of([&] {
    const HeapBytes heap(bytes);
    const auto file = GgufFile::parse("x.gguf", heap.span, heap.memory);
    std::vector<std::string> names;
    for (const GgufTensor& tensor : file->tensors()) {
      names.push_back(tensor.name);
    }
    load_all(*file, names);
  });
}

template <typename Load>
void expect_no_prefix_loads(const std::string& bytes, Load load) {
  ASSERT_EQ(load(bytes), Outcome::kLoaded);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_EQ(load(std::string_view(bytes).substr(0, size)), Outcome::kRefused) << size << " bytes";
  }
}

// Flips of one byte each, at random places, to a random other value. Both outcomes must occur, or
// the flips do not reach what they are meant to test.
template <typename Load>
void flip_bytes(const std::string& bytes, std::size_t places, Load load) {
  core::Random random(17);
  int outcomes[2] = {};
  for (int i = 0; i < kFlips; ++i) {
    std::string damaged = bytes;
    const auto at = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(places)));
    damaged[at] = static_cast<char>(damaged[at] ^ (1 + random.below(255)));
    ++outcomes[static_cast<int>(load(damaged))];
  }
  EXPECT_GT(outcomes[0], 0);
  EXPECT_GT(outcomes[1], 0);
}

std::string small_safetensors() {
  const TemporaryFolder folder;
  const std::vector<NamedTensor> tensors = {
      {"floats", core::Tensor::zeros(core::DType::kF32, {3, 4})},
      {"halves", core::Tensor::zeros(core::DType::kBF16, {5})},
      {"codes", core::Tensor::zeros(core::DType::kU8, {2, 3})},
      {"none", core::Tensor::zeros(core::DType::kI64, {0})}};
  write_safetensors(folder / "x", tensors, {{"format", "pt"}});
  return read_text_file(folder / "x", 1 << 20);
}

TEST(Corruption, NoPrefixOfASafetensorsFileLoads) {
  expect_no_prefix_loads(small_safetensors(), load_safetensors);
}

TEST(Corruption, NoPrefixOfAGgufFileLoads) {
  expect_no_prefix_loads(small_gguf(), load_gguf);
}

TEST(Corruption, FlippedBytesOfASafetensorsFile) {
  const std::string bytes = small_safetensors();
  flip_bytes(bytes, bytes.size(), load_safetensors);
}

TEST(Corruption, FlippedBytesOfAGgufFile) {
  const std::string bytes = small_gguf();
  flip_bytes(bytes, bytes.size(), load_gguf);
  flip_bytes(bytes, bytes.size() - 338, load_gguf);  // what stands before the data
}

TEST(Corruption, RandomBytesAfterTheMagicOfAGgufFile) {
  core::Random random(3);
  for (int i = 0; i < kFlips; ++i) {
    GgufBytes file;
    file.header(static_cast<std::uint64_t>(random.below(3)),
                static_cast<std::uint64_t>(random.below(3)));
    for (std::int64_t word = random.below(40); word > 0; --word) {
      // Small numbers pass more checks than random ones.
      file.u32(static_cast<std::uint32_t>(random.below(random.below(2) == 0 ? 14 : 1LL << 32)));
    }
    load_gguf(file.bytes());
  }
}

// The same through the file system: a folder whose index or shard is damaged.
class ShardedModel {
 public:
  ShardedModel() {
    const core::Tensor x = core::Tensor::zeros(core::DType::kF32, {2});
    write_safetensors(folder_ / "s-1.safetensors", std::vector<NamedTensor>{{"a", x}, {"b", x}});
    write_safetensors(folder_ / "s-2.safetensors", std::vector<NamedTensor>{{"c", x}});
    write_index(index_);
  }

  const std::string& index() const { return index_; }
  void write_index(std::string_view bytes) { folder_.write("model.safetensors.index.json", bytes); }

  Outcome load() const {
    return outcome_of([&] {
      const auto store = TensorStore::open(folder_.path());
      for (const std::string& name : store->names()) {
        touch(store->load(name));
      }
    });
  }

 private:
  TemporaryFolder folder_;
  std::string index_ = R"({"metadata": {"total_size": 24}, "weight_map": {"a": "s-1.safetensors", )"
                       R"("b": "s-1.safetensors", "c": "s-2.safetensors"}})";
};

TEST(Corruption, NoPrefixOfAnIndexLoads) {
  ShardedModel model;
  expect_no_prefix_loads(model.index(), [&](std::string_view bytes) {
    model.write_index(bytes);
    return model.load();
  });
}

TEST(Corruption, FlippedBytesOfAnIndex) {
  ShardedModel model;
  flip_bytes(model.index(), model.index().size(), [&](std::string_view bytes) {
    model.write_index(bytes);
    return model.load();
  });
}

TEST(Corruption, EveryPrefixOfAGgufFileOnTheDiskIsRefused) {
  const TemporaryFolder folder;
  const std::string bytes = small_gguf();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto path = folder.write("x.gguf", std::string_view(bytes).substr(0, size));
    ASSERT_EQ(outcome_of([&] { TensorStore::open(path); }), Outcome::kRefused) << size;
  }
}

// Bytes that opening `bytes` allocates.
template <typename Load>
std::size_t allocated_by(std::string_view bytes, Load load) {
  const std::size_t before = allocated_bytes();
  load(bytes);
  const std::size_t allocated = allocated_bytes() - before;
  EXPECT_GT(allocated, 0u);  // the counter counts
  return allocated;
}

constexpr std::size_t kFewKilobytes = 16 << 10;

TEST(Corruption, ASmallGgufFileAllocatesLittle) {
  const std::string filler(60, '\x01');
  for (const std::uint64_t count :
       {1ull, 2ull, 1ull << 20, 1ull << 31, 1ull << 40, 1ull << 63, ~0ull}) {
    EXPECT_LT(allocated_by(GgufBytes().header(count, 0).raw(filler).bytes(), load_gguf),
              kFewKilobytes);
    EXPECT_LT(allocated_by(GgufBytes().header(0, count).raw(filler).bytes(), load_gguf),
              kFewKilobytes);
    EXPECT_LT(allocated_by(GgufBytes().header(0, 1).u64(count).raw(filler).bytes(), load_gguf),
              kFewKilobytes);
    for (std::uint32_t type = 0; type < 14; ++type) {
      GgufBytes file;
      file.header(0, 1).string("k").u32(9).u32(type).u64(count).raw(filler);
      EXPECT_LT(allocated_by(file.bytes(), load_gguf), kFewKilobytes) << type << " " << count;
      GgufBytes tensor;
      tensor.header(1, 0).tensor("t", {count}, type, 0).pad().raw(filler);
      EXPECT_LT(allocated_by(tensor.bytes(), load_gguf), kFewKilobytes) << type << " " << count;
    }
  }
}

TEST(Corruption, ASmallSafetensorsFileAllocatesLittle) {
  const auto file_of = [](std::uint64_t length, std::string_view header) {
    return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) +
           std::string(header);
  };
  const std::string header =
      R"({"a":{"dtype":"U8","shape":[100000000000],"data_offsets":[0,100000000000]}})";
  EXPECT_LT(allocated_by(file_of(header.size(), header), load_safetensors), kFewKilobytes);
  for (const std::uint64_t length :
       {92ull, 99999999ull, 100000000ull, 1ull << 40, 1ull << 63, ~0ull}) {
    EXPECT_LT(allocated_by(file_of(length, header), load_safetensors), kFewKilobytes) << length;
  }
}

// Memory for the values, not for their text once for each value.
TEST(Corruption, AShapeOfManyDimensionsAllocatesInProportion) {
  std::string header = R"({"a":{"dtype":"U8","shape":[1)";
  for (int i = 1; i < 20000; ++i) {
    header += ",1";
  }
  header += R"(],"data_offsets":[0,1]}})";
  const std::uint64_t length = header.size();
  const std::string file =
      std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header + "x";
  EXPECT_LT(allocated_by(file, load_safetensors), 200 * file.size());
}

}  // namespace
}  // namespace nibble::io
