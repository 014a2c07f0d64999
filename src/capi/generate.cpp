#include "capi/generate.h"

#include <utility>

#include "capi/generation_options.h"
#include "capi/inputs.h"
#include "capi/options_struct.h"
#include "capi/texts.h"
#include "core/error.h"

namespace nibble::capi {
namespace {

std::vector<nibble_texts::Text> continue_prompts(nibble_model& model, const Call& call,
                                                 std::span<const nibble_input> prompts,
                                                 const nibble_generate_options& options) {
  const engine::Request request = request_of(options);
  std::vector<TextOrder> orders;
  for (const nibble_input& prompt : prompts) {
    TextOrder& order = orders.emplace_back();
    order.request = request;
    order.request.prompt = tokens_of(model, prompt);
    order.request.sampling.seed += orders.size() - 1;
    order.on_piece = [piece = options.on_piece, user = options.user,
                      index = orders.size() - 1](const std::string& text) {
      return piece == nullptr || text.empty() || piece(user, index, text.data(), text.size()) == 0;
    };
  }
  std::vector<nibble_texts::Text> texts;
  for (const engine::Completion& completion : write_all(model, call, orders)) {
    texts.push_back(text_of(completion, orders[texts.size()].request.prompt.size()));
  }
  return texts;
}

// A failure ends the call, and with it the other texts.
serve::Job job_of(const TextOrder& order, engine::Completion& result) {
  serve::Job job;
  job.request = order.request;
  job.on_piece = [&on_piece = order.on_piece](const serve::TextPiece& piece) {
    if (on_piece && !on_piece(piece.text)) {
      throw Cancelled();
    }
  };
  job.on_finish = [&result](engine::Completion completion) {
    rethrow_failure(completion);
    result = std::move(completion);
  };
  return job;
}

}  // namespace

std::vector<engine::Completion> write_all(nibble_model& model, const Call& call,
                                          const std::vector<TextOrder>& orders) {
  std::vector<engine::Completion> completions(orders.size());
  run_jobs(model, call, [&](CalledEngine& engine) {
    for (std::size_t i = 0; i < orders.size(); ++i) {
      engine.submit(job_of(orders[i], completions[i]));
    }
  });
  return completions;
}

void run_jobs(nibble_model& model, const Call& call,
              const std::function<void(CalledEngine&)>& submit) {
  CalledEngine& engine = model.engine();
  try {
    submit(engine);
    engine.run_all([&call] { call.check(); });
  } catch (const core::Error& error) {
    engine.drop_all();
    if (error.kind() == core::ErrorKind::kFailed) {
      model.drop_engine();  // it may be beyond help
    }
    throw;
  } catch (...) {
    engine.drop_all();
    throw;
  }
}

}  // namespace nibble::capi

using namespace nibble::capi;

extern "C" {

void nibble_generate_options_init(nibble_generate_options* options, size_t struct_size) {
  fill(options, struct_size, default_generate_options());
}

nibble_status nibble_generate(nibble_model* model, const nibble_input* prompts, size_t count,
                              const nibble_generate_options* options, nibble_texts** texts) {
  return with_model(model, [&](const Call& call) {
    require_given(texts, "texts");
    const auto asked = options_of(options, default_generate_options());
    const auto inputs = inputs_of(prompts, count, "prompts");
    auto written = std::make_unique<nibble_texts>();
    written->texts = model->kind() == NIBBLE_ENCODER_DECODER
                         ? rewrite_texts(*model, call, inputs, asked)
                         : continue_prompts(*model, call, inputs, asked);
    *texts = written.release();
  });
}
}
