#include <string>
#include <utility>
#include <vector>

#include "capi/model_handle.h"
#include "capi/options_struct.h"
#include "core/cpu_topology.h"
#include "core/error.h"
#include "device/cuda_devices.h"
#include "engine/tile_file.h"
#include "io/file_descriptor.h"
#include "models/lora/lora_adapter.h"
#include "models/parameters.h"

namespace nibble::capi {
namespace {

using core::ErrorKind;

constexpr int kMostThreads = 4096;
constexpr std::int64_t kMostBatch = 4096;

nibble_open_options default_options() {
  nibble_open_options options{};
  options.lora_scale = 1.0;
  return options;
}

std::string text_or(const char* text, const char* otherwise) {
  return text == nullptr ? otherwise : text;
}

// The devices to try, the first one first.
std::vector<device::Place> places(const std::string& device) {
  if (device != "auto") {
    return {device::parse_place(device)};
  }
  std::vector<device::Place> all;
  if (!device::cuda_devices().empty()) {
    all.push_back({device::Kind::kCuda, 0});
  }
  all.push_back({});
  return all;
}

nibble_model::Settings settings_of(const char* path, const nibble_open_options& options) {
  nibble_model::Settings settings;
  settings.path = path;
  settings.runner.cpu.threads = core::usable_threads(checked_threads(options.threads));
  settings.runner.cpu.activations = ops::parse_activations(text_or(options.activations, "int8"));
  settings.runner.kv_types = ops::parse_kv_types(text_or(options.kv_type, "f16"));
  settings.runner = engine::with_own_tiles(std::move(settings.runner), settings.path);
  settings.engine.context = options.context;
  core::require(options.max_batch >= 0 && options.max_batch <= kMostBatch, ErrorKind::kUsage,
                "max_batch is {}, must be 0 to {}", options.max_batch, kMostBatch);
  settings.engine.max_batch =
      options.max_batch > 0 ? options.max_batch : engine::EngineOptions().max_batch;
  core::require(options.kv_bytes >= 0, ErrorKind::kUsage, "kv_bytes is {}, must not be negative",
                options.kv_bytes);
  settings.engine.kv_bytes = options.kv_bytes;
  return settings;
}

class Log {
 public:
  explicit Log(const nibble_open_options& options) : call_(options.log), user_(options.log_user) {}
  void operator()(const std::string& line) const {
    if (call_ != nullptr) {
      call_(user_, line.c_str());
    }
  }

 private:
  nibble_log_callback call_;
  void* user_;
};

std::shared_ptr<models::Model> read_model(const char* path, const nibble_open_options& options,
                                          models::StoredLayers stored, const Log& log) {
  auto model = models::open_model(path, stored);
  for (const std::string& remark : model->compression.remarks) {
    log(fmt::format("{}: {}", io::shown(path), core::printable(remark)));
  }
  if (options.lora != nullptr) {
    model = models::with_adapter(*model, models::LoraAdapter::open(options.lora),
                                 static_cast<float>(options.lora_scale));
  }
  return model;
}

std::unique_ptr<nibble_model> open(const char* path, const nibble_open_options& options) {
  nibble_model::Settings settings = settings_of(path, options);
  const std::vector<device::Place> devices = places(text_or(options.device, "auto"));
  const Log log(options);
  const auto model = read_model(path, options, engine::stored_layers_for(devices.front()), log);
  settings.chat_template =
      text_or(options.chat_template, model->tokenizer->chat_template().c_str());
  for (const device::Place& place : devices) {
    settings.runner.place = place;
    try {
      return std::make_unique<nibble_model>(model, settings);
    } catch (const core::Error& error) {
      if (error.kind() != ErrorKind::kUsage || place == devices.back()) {
        throw;
      }
      log(fmt::format("the model runs on the CPU: {}", error.what()));
    }
  }
  core::fail(ErrorKind::kUsage, "there is no device");
}

std::int32_t id_or_none(const std::optional<std::int32_t>& id) {
  return id.value_or(-1);
}

nibble_facts facts_of(const nibble_model& handle) {
  const models::Model& model = handle.model();
  const models::NetworkConfig& config = model.network.config;
  nibble_facts facts{};
  facts.kind = handle.kind();
  facts.bos = id_or_none(model.tokenizer->bos());
  facts.eos = id_or_none(model.tokenizer->eos());
  facts.pad = id_or_none(model.tokenizer->pad());
  facts.labels = static_cast<std::int32_t>(
      model.network.classifier ? model.network.classifier->labels.size() : 0);
  facts.vocabulary = config.vocabulary;
  facts.context = handle.context();
  facts.hidden = config.hidden;
  facts.layers = config.layers;
  facts.parameters = models::parameters_of(model.network);
  facts.weight_bytes = models::total_weight_bytes(model.network);
  facts.bits_per_weight = models::block_bits_per_weight(model.network);
  facts.family = config.family.c_str();
  facts.recipe = model.compression.recipe.c_str();
  facts.device = handle.device_name.c_str();
  facts.chat_template = handle.settings().chat_template.c_str();
  return facts;
}

}  // namespace

int checked_threads(std::int32_t threads) {
  core::require(threads >= 0 && threads <= kMostThreads, ErrorKind::kUsage,
                "threads is {}, must be 0 to {}", threads, kMostThreads);
  return threads;
}

}  // namespace nibble::capi

using namespace nibble::capi;

extern "C" {

void nibble_open_options_init(nibble_open_options* options, size_t struct_size) {
  fill(options, struct_size, default_options());
}

nibble_status nibble_model_open(const char* path, const nibble_open_options* options,
                                nibble_model** model) {
  return guarded([&] {
    require_given(path, "path");
    require_given(model, "model");
    *model = open(path, options_of(options, default_options())).release();
  });
}

void nibble_model_close(nibble_model* model) {
  delete model;
}

const char* nibble_model_error(const nibble_model* model) {
  return model == nullptr ? "" : model->calls().error.text();
}

void nibble_model_cancel(nibble_model* model) {
  if (model != nullptr) {
    ++model->calls().cancels;
  }
}

nibble_status nibble_model_facts(nibble_model* model, nibble_facts* facts) {
  return with_model(model, [&](const Call&) {
    require_given(facts, "facts");
    const std::size_t size = facts->struct_size;
    nibble::core::require(size >= sizeof(std::size_t) && size <= kMostStructBytes,
                          nibble::core::ErrorKind::kUsage,
                          "the struct_size of the facts is {}; set it to their size", size);
    fill(facts, size, facts_of(*model));
  });
}

const char* nibble_model_label(const nibble_model* model, int32_t index) {
  const auto* head = model == nullptr || !model->model().network.classifier
                         ? nullptr
                         : &*model->model().network.classifier;
  const bool known =
      head != nullptr && index >= 0 && static_cast<std::size_t>(index) < head->labels.size();
  return known ? head->labels[static_cast<std::size_t>(index)].c_str() : nullptr;
}

void nibble_free(void* memory) {
  std::free(memory);
}
}
