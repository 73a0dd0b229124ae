// `weir-lab sim` is an HTTP server that behaves like an inference replica, with lab/engine/engine_model.hpp in the
// place of a GPU.
//
// The server has one thread. It serves /v1/chat/completions and /v1/completions as vLLM does, /generate and
// /generate_stream as TGI does, and /v1/models, /health, /metrics, /reset_prefix_cache and /flush_cache. Each sequence
// and step is one write: one token, or several with speculative decoding.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "lab/engine/engine_model.hpp"
#include "lab/engine/memory.hpp"

namespace weir::lab::sim {

/// The engine whose names /metrics uses; every route is served either way.
enum class EngineNames { vllm, tgi };

struct SimSettings {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8001;  ///< 0 lets the system choose; the line on standard output says which.
  std::string model = "sim-7b";
  std::uint64_t seed = 1;
  EngineNames engine = EngineNames::vllm;
  engine::EngineSettings model_settings;
  engine::CacheReport cache_report = engine::CacheReport::exact;
  bool thoughts = false;  ///< Later prompts do not repeat all that was made for an answer: see add_answer().
  std::string log;        ///< The truth of every request goes there as JSON lines; "" means none, "-" standard output.
};

/// Serves until SIGINT or SIGTERM, then stops at once. Throws std::runtime_error with a sentence if it cannot listen or
/// open its log.
void run_sim(const SimSettings& settings);

// Runs an EngineModel in real time on an io_context: one timer, absolute deadlines, so that steps do not drift.
//
// A single thread uses it. A step that ends late because the process was busy does not delay those after it. Only a
// step that is more than `forgiven_lateness` late (a stopped process) restarts the clock instead of catching up.

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
