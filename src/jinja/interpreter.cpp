#include "jinja/interpreter.h"

#include <algorithm>

#include "jinja/limits.h"

namespace nibble::jinja {

Interpreter::Interpreter(Runtime& runtime) : runtime_(runtime) {
  live_frames_.push_back(&root_);
}

Interpreter::Scope::Scope(Interpreter& interpreter, const Frame* parent)
    : interpreter_(interpreter), outer_(interpreter.frame_) {
  frame_.parent = parent;
  frame_.id = ++interpreter.last_frame_id_;
  interpreter.frame_ = &frame_;
  interpreter.live_frames_.push_back(&frame_);
}

Interpreter::Scope::~Scope() {
  interpreter_.live_frames_.pop_back();
  interpreter_.frame_ = outer_;
}

DepthGuard Interpreter::go_deeper() {
  return {depth_, kMaxEvaluationDepth, runtime_.position(), "the template recurses"};
}

void Interpreter::define(std::string_view name, Value value) {
  root_.variables.insert_or_assign(name, std::move(value));
}

std::string Interpreter::render(const Block& block) {
  TextBuilder out(runtime_);
  out_ = &out;
  execute(block);
  return out.take();
}

const Value* Interpreter::find_variable(std::string_view name) const {
  for (const Frame* frame = frame_; frame != nullptr; frame = frame->parent) {
    const auto at = frame->variables.find(name);
    if (at != frame->variables.end()) {
      return &at->second;
    }
  }
  return nullptr;
}

const Frame* Interpreter::find_frame(std::uint64_t id) const {
  const auto at = std::find_if(live_frames_.rbegin(), live_frames_.rend(),
                               [&](const Frame* frame) { return frame->id == id; });
  return at == live_frames_.rend() ? nullptr : *at;
}

}  // namespace nibble::jinja
