// A machine is a replica's engine as the model needs it: it streams until it is told to stop, notes what it must never
// see, and dies, hangs or fails when a step says so.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/integration/peers/scripted_replica.hpp"

namespace weir::model {

/// Shared by the machines and the stage. All threads.
class Truth {
 public:
  /// Streams of this request end now.
  void release(const std::string& id);
  bool is_released(const std::string& id) const;
  void add_violation(std::string text);
  std::vector<std::string> violations() const;
  std::atomic<bool> over{false};  ///< The stage ends, so no machine waits for anything.

 private:
  mutable std::mutex mutex_;
  std::set<std::string> released_;
  std::vector<std::string> violations_;
};

class Machine {
 public:
  /// Its own key is "engine-secret-LABEL" if `has_key`. Its address is 127.0.0.`host`.
  Machine(Truth& truth, std::string label, bool has_key, std::uint16_t port, unsigned host = 1);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  std::string secret() const { return has_key_ ? "engine-secret-" + label_ : ""; }
  std::string url() const;
  void kill();
  void hang();
  void fail();
  void mend();
  bool is_dead() const { return !peer_; }
  bool is_hung() const { return hangs_; }
  bool is_ill() const { return hangs_ || fails_; }
  /// False once it has been dead, hung or failing.
  bool was_always_well() const { return always_well_; }

 private:
  void start();
  void answer(integration::Exchange& exchange);
  void look_for_secrets(const integration::ReceivedRequest& request);
  std::optional<std::size_t> found();
  void stream(integration::Exchange& exchange, const std::string& id, bool lasts);
  /// Waits while `why()`, unless all is over.
  template <class Why>
  void wait_while(const Why& why) const;

  Truth& truth_;
  const std::string label_;
  const bool has_key_;
  const std::uint16_t port_;
  const unsigned host_;
  std::atomic<bool> hangs_{false}, fails_{false}, ends_{false}, warm_{false};
  bool always_well_ = true;
  std::unique_ptr<integration::ScriptedReplica> peer_;
};

/// Returns a token of a stream: nobody else's stream has it.
std::string token_event(const std::string& id, std::size_t number);
/// Returns how its text begins, for those who look for it.
std::string token_text(const std::string& id, std::size_t number);

}  // namespace weir::model
