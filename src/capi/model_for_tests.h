#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <nibble/nibble.h>
#include <nlohmann/json.hpp>

/// What tests of the C interface share. They see nothing else of the project, as its users.
namespace nibble::capi {

using Json = nlohmann::json;

inline const std::string kDemo = NIBBLE_SOURCE_DIR "/models/demo";
inline const std::string kFamilies = NIBBLE_SOURCE_DIR "/tests/families/";

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline nibble_input input(std::string_view text) {
  return {text.data(), text.size(), nullptr, 0};
}
inline nibble_input input(const std::vector<std::int32_t>& ids) {
  return {nullptr, 0, ids.data(), ids.size()};
}

/// Options with their defaults.
template <typename Options>
Options defaults(void (*init)(Options*, size_t)) {
  Options options;
  init(&options, sizeof options);
  return options;
}

/// A model on the CPU, with a thread, that is closed at the end.
class Opened {
 public:
  explicit Opened(const std::string& path, const char* chat_template = nullptr,
                  const char* kv_type = nullptr) {
    auto options = defaults(nibble_open_options_init);
    options.device = "cpu";
    options.threads = 1;
    options.chat_template = chat_template;
    options.kv_type = kv_type;
    EXPECT_EQ(nibble_model_open(path.c_str(), &options, &model_), NIBBLE_OK) << nibble_last_error();
  }
  ~Opened() { nibble_model_close(model_); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  operator nibble_model*() const { return model_; }  // NOLINT(google-explicit-constructor)

 private:
  nibble_model* model_ = nullptr;
};

/// A text that the library gave.
inline std::string taken(char* text) {
  const std::string copy = text == nullptr ? "" : text;
  nibble_free(text);
  return copy;
}

/// Texts that the library gave.
class Texts {
 public:
  ~Texts() { nibble_texts_free(texts_); }
  nibble_texts** out() { return &texts_; }
  nibble_texts* get() const { return texts_; }
  std::size_t count() const { return nibble_texts_count(texts_); }
  std::string text(std::size_t i) const { return nibble_texts_text(texts_, i, nullptr); }
  std::string reason(std::size_t i) const { return nibble_texts_finish_reason(texts_, i); }
  std::vector<std::int32_t> tokens(std::size_t i) const {
    std::size_t count = 0;
    const std::int32_t* ids = nibble_texts_tokens(texts_, i, &count);
    return {ids, ids + count};
  }

 private:
  nibble_texts* texts_ = nullptr;
};

/// Row-major numbers that the library gave.
struct Numbers {
  std::vector<float> values;
  std::size_t rows = 0;
  std::size_t columns = 0;
  float at(std::size_t row, std::size_t column) const { return values[row * columns + column]; }
};

inline Numbers forward(nibble_model* model, const std::vector<std::int32_t>& ids,
                       const std::vector<std::int32_t>& target = {}) {
  Numbers numbers;
  float* values = nullptr;
  EXPECT_EQ(nibble_forward(model, ids.data(), ids.size(), target.empty() ? nullptr : target.data(),
                           target.size(), &values, &numbers.rows, &numbers.columns),
            NIBBLE_OK)
      << nibble_last_error();
  if (values != nullptr) {
    numbers.values.assign(values, values + numbers.rows * numbers.columns);
  }
  nibble_free(values);
  return numbers;
}

inline std::vector<std::int32_t> tokenize(nibble_model* model, std::string_view text) {
  std::int32_t* ids = nullptr;
  std::size_t count = 0;
  EXPECT_EQ(nibble_tokenize(model, text.data(), text.size(), nullptr, &ids, &count), NIBBLE_OK)
      << nibble_last_error();
  const std::vector<std::int32_t> copy(ids, ids + count);
  nibble_free(ids);
  return copy;
}

}  // namespace nibble::capi
