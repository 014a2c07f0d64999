#include "models/bert/encoder_config.h"

#include <fmt/format.h>

#include "core/json.h"

namespace nibble::models::bert {
namespace {

using core::ErrorKind;
using core::Json;

constexpr std::size_t kMaxLabels = 1 << 16;

struct TaskName {
  std::string_view ending;
  EncoderTask task;
};
constexpr TaskName kTasks[] = {{"ForSequenceClassification", EncoderTask::kClassifyTexts},
                               {"ForTokenClassification", EncoderTask::kClassifyTokens},
                               {"ForMaskedLM", EncoderTask::kMaskedLm},
                               {"ForPreTraining", EncoderTask::kMaskedLm},
                               {"Model", EncoderTask::kNone}};

// The first of "architectures"; a model without any has no head.
EncoderTask read_task(const Json& json) {
  const auto list = json.find("architectures");
  if (list == json.end() || list->is_null() || (list->is_array() && list->empty())) {
    return EncoderTask::kNone;
  }
  core::require(list->is_array() && list->front().is_string(), ErrorKind::kInvalidModel,
                "config.json: 'architectures' must be a list of names");
  const auto name = list->front().get<std::string>();
  for (const TaskName& entry : kTasks) {
    if (name.ends_with(entry.ending)) {
      return entry.task;
    }
  }
  core::fail(ErrorKind::kInvalidModel,
             "config.json: architecture '{}' is not supported; of encoders those are that end in "
             "ForSequenceClassification, ForTokenClassification, ForMaskedLM or Model",
             core::printable(name));
}

// id2label, or the two labels that transformers takes where there is none.
std::vector<std::string> read_labels(const ConfigReader& reader) {
  const auto map = reader.json().find("id2label");
  std::vector<std::string> labels;
  if (map == reader.json().end() || map->is_null()) {
    const std::int64_t count = reader.size_or("num_labels", 2, kMaxLabels);
    for (std::int64_t i = 0; i < count; ++i) {
      labels.push_back(fmt::format("LABEL_{}", i));
    }
    return labels;
  }
  core::require(map->is_object() && !map->empty() && map->size() <= kMaxLabels,
                ErrorKind::kInvalidModel,
                "config.json: 'id2label' must be an object of 1 to {} labels", kMaxLabels);
  for (std::size_t i = 0; i < map->size(); ++i) {
    const auto label = map->find(fmt::format("{}", i));
    core::require(label != map->end() && label->is_string(), ErrorKind::kInvalidModel,
                  "config.json: 'id2label' has {} entries but no text for {}", map->size(), i);
    labels.push_back(label->get<std::string>());
  }
  return labels;
}

Problem read_problem(const ConfigReader& reader, EncoderTask task, std::size_t labels) {
  if (task == EncoderTask::kClassifyTokens) {
    return Problem::kTokenLabels;
  }
  const std::string problem =
      reader.text("problem_type", labels == 1 ? "regression" : "single_label_classification");
  if (problem == "regression") {
    return Problem::kRegression;
  }
  if (problem == "single_label_classification") {
    return Problem::kSingleLabel;
  }
  core::require(problem == "multi_label_classification", ErrorKind::kInvalidModel,
                "config.json: 'problem_type' is '{}', which is not known",
                core::printable(problem));
  return Problem::kMultiLabel;
}

}  // namespace

NetworkConfig read_sizes(const ConfigReader& reader, const SizeKeys& keys) {
  NetworkConfig config;
  config.hidden = reader.size(keys.hidden, kMaxWidth);
  config.layers = reader.size(keys.layers, kMaxLayers);
  config.heads = reader.size(keys.heads, kMaxHeads);
  config.kv_heads = config.heads;
  core::require(config.hidden % config.heads == 0, ErrorKind::kInvalidModel,
                "config.json: {} {} is not a multiple of {} {}", keys.hidden, config.hidden,
                keys.heads, config.heads);
  config.head_dim = config.hidden / config.heads;
  config.ffn = reader.size(keys.ffn, kMaxWidth);
  config.vocabulary = reader.size("vocab_size", kMaxVocabulary);
  config.max_positions = reader.size("max_position_embeddings", kMaxPositions);
  config.norm = ops::NormKind::kLayer;
  config.gated = false;
  config.tied_output = reader.flag("tie_word_embeddings", true);
  config.windows.assign(static_cast<std::size_t>(config.layers), 0);
  return config;
}

Architecture encoder(const ConfigReader& reader, NetworkConfig config) {
  Architecture architecture(std::move(config));
  architecture.norms = NormPlacement::kPost;
  architecture.final_norm = false;
  architecture.is_encoder = true;
  architecture.task = read_task(reader.json());
  if (architecture.task == EncoderTask::kClassifyTexts ||
      architecture.task == EncoderTask::kClassifyTokens) {
    architecture.labels = read_labels(reader);
    architecture.problem = read_problem(reader, architecture.task, architecture.labels.size());
  }
  return architecture;
}

}  // namespace nibble::models::bert
