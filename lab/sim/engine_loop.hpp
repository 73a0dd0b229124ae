// Runs an EngineModel in real time on an io_context: one timer, absolute deadlines, so that steps do not drift.
//
// A single thread uses it. A step that ends late because the process was busy does not delay those after it. Only a
// step that is more than `forgiven_lateness` late (a stopped process) restarts the clock instead of catching up.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <unordered_map>

#include "lab/engine/engine_model.hpp"

namespace weir::lab::sim {

/// A listener waits for the tokens of a sequence.
class Listener {
 public:
  virtual ~Listener() = default;
  /// Takes a token. It may abort sequences and submit others. It is not called again after `event.last` or after an
  /// abort.
  virtual void on_token(const engine::TokenEvent& event) = 0;
};

class EngineLoop {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds forgiven_lateness{250};

  EngineLoop(boost::asio::io_context& io, const engine::EngineSettings& settings, std::uint64_t seed);

  /// Returns false if the engine could never run it. `listener` must live until its last token or the abort.
  bool submit(const engine::Sequence& sequence, Listener& listener);
  void abort(engine::SequenceId id);
  /// Forgets what earlier sequences left for prompts that begin like them.
  void flush() { model_.flush(); }
  /// Begins no further step; it is called at the end of the program.
  void stop() { timer_.cancel(); }
  const engine::EngineModel& model() const { return model_; }

 private:
  void begin(Clock::time_point from);
  void on_deadline();

  engine::EngineModel model_;
  boost::asio::steady_timer timer_;
  std::unordered_map<engine::SequenceId, Listener*> listeners_;
  bool stepping_ = false;
};

}  // namespace weir::lab::sim
