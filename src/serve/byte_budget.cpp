#include "serve/byte_budget.h"

namespace nibble::serve {

ByteBudget::Verdict ByteBudget::take(const std::string& client, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > in_all_ - taken_) {
    return Verdict::kTooManyInAll;
  }
  const auto at = clients_.find(client);
  const std::size_t before = at == clients_.end() ? 0 : at->second;
  if (bytes > of_a_client_ - before) {
    return Verdict::kClientHasTooMany;
  }
  if (bytes > 0) {
    clients_[client] = before + bytes;
    taken_ += bytes;
  }
  return Verdict::kTaken;
}

void ByteBudget::give_back(const std::string& client, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto at = clients_.find(client);
  if (at == clients_.end()) {
    return;
  }
  taken_ -= bytes;
  at->second -= bytes;
  if (at->second == 0) {
    clients_.erase(at);
  }
}

std::size_t ByteBudget::taken() const {
  const std::lock_guard lock(mutex_);
  return taken_;
}

ByteBudget::Verdict ByteShare::add(std::size_t bytes) {
  const auto verdict = budget_->take(client_, bytes);
  bytes_ += verdict == ByteBudget::Verdict::kTaken ? bytes : 0;
  return verdict;
}

}  // namespace nibble::serve
