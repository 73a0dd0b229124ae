#include "lab/sim/engine_loop.hpp"

namespace weir::lab::sim {

EngineLoop::EngineLoop(boost::asio::io_context& io, const engine::EngineSettings& settings, std::uint64_t seed)
    : model_(settings, seed), timer_(io) {}

bool EngineLoop::submit(const engine::Sequence& sequence, Listener& listener) {
  if (!model_.submit(sequence)) return false;
  listeners_[sequence.id] = &listener;
  if (!stepping_) begin(Clock::now());
  return true;
}

void EngineLoop::abort(engine::SequenceId id) {
  listeners_.erase(id);
  model_.abort(id);
}

void EngineLoop::begin(Clock::time_point from) {
  const auto took = model_.begin_step();
  stepping_ = took.has_value();
  if (!stepping_) return;
  timer_.expires_at(from + *took);
  timer_.async_wait([this](boost::system::error_code ec) {
    if (!ec) on_deadline();
  });
}

void EngineLoop::on_deadline() {
  const Clock::time_point deadline = timer_.expiry();
  for (const engine::TokenEvent& event : model_.end_step()) {
    const auto found = listeners_.find(event.id);
    if (found == listeners_.end()) continue;  // A listener before it aborted it in this step.
    Listener& listener = *found->second;
    if (event.last) listeners_.erase(found);
    listener.on_token(event);
  }
  const Clock::time_point now = Clock::now();
  begin(now - deadline > forgiven_lateness ? now : deadline);
}

}  // namespace weir::lab::sim
