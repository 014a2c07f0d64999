#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "compress/recipe/recipe.h"
#include "core/random.h"
#include "models/model.h"
#include "tune/qat/labelled_texts.h"

namespace nibble::tune {

/// A model of tests/families.
inline std::shared_ptr<models::Model> model_of_family(const char* name) {
  return models::open_model(std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests" / "families" / name);
}

/// A small BERT with a head of three labels.
inline std::shared_ptr<models::Model> small_encoder() {
  return model_of_family("bert-texts");
}

/// A small BART, with 2 and 3 layers of other heads.
inline std::shared_ptr<models::Model> small_encoder_decoder() {
  return model_of_family("bart");
}

/// A small mBART: its norms stand before the layers, and its embedding is scaled.
inline std::shared_ptr<models::Model> small_pre_norm_encoder_decoder() {
  return model_of_family("mbart");
}

/// A small Llama with two layers, grouped queries and a rotary embedding.
inline std::shared_ptr<models::Model> small_decoder() {
  return model_of_family("llama");
}

/// A small GPT-2: learned positions, biases, and the output layer is the token table.
inline std::shared_ptr<models::Model> small_gpt2() {
  return model_of_family("gpt2");
}

/// A small OPT whose norms stand behind its layers.
inline std::shared_ptr<models::Model> small_post_norm_decoder() {
  return model_of_family("opt-post-norm");
}

/// Round to nearest by one scheme for all layers.
inline compress::Recipe rounded_by(const char* scheme) {
  compress::Recipe recipe;
  recipe.name = scheme;
  recipe.scheme = formats::parse_scheme(scheme);
  recipe.steps = {{"rtn"}};
  return recipe;
}

/// Texts of 3 to 9 random tokens with random labels.
inline std::vector<LabelledText> random_texts(std::size_t count, std::uint64_t seed) {
  core::Random random(seed);
  std::vector<LabelledText> texts(count);
  for (LabelledText& text : texts) {
    text.tokens.resize(static_cast<std::size_t>(3 + random.below(7)));
    for (auto& token : text.tokens) {
      token = static_cast<std::int32_t>(random.below(64));
    }
    text.types.resize(text.tokens.size());
    text.label.output = static_cast<std::int32_t>(random.below(3));
  }
  return texts;
}

/// Texts of 3 to 9 random tokens, and what is to be written of them: 2 to 6.
inline std::vector<LabelledText> random_pairs(std::size_t count, std::uint64_t seed) {
  std::vector<LabelledText> texts = random_texts(count, seed);
  core::Random random(seed + 1);
  for (LabelledText& text : texts) {
    text.types.clear();
    text.written.resize(static_cast<std::size_t>(2 + random.below(5)));
    for (auto& token : text.written) {
      token = static_cast<std::int32_t>(random.below(64));
    }
  }
  return texts;
}

/// Windows of 3 to 9 random tokens.
inline std::vector<LabelledText> random_windows(std::size_t count, std::uint64_t seed) {
  std::vector<LabelledText> windows = random_texts(count, seed);
  for (LabelledText& window : windows) {
    window.types.clear();
    window.written.assign(window.tokens.begin() + 1, window.tokens.end());
    window.tokens.resize(1);
  }
  return windows;
}

inline std::vector<const LabelledText*> all_of(const std::vector<LabelledText>& texts) {
  std::vector<const LabelledText*> pointers;
  for (const LabelledText& text : texts) {
    pointers.push_back(&text);
  }
  return pointers;
}

}  // namespace nibble::tune
