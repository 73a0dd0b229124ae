// A machine is a replica's engine as the model needs it: it streams until it is told to stop, notes what it must never
// see, and dies, hangs or fails when a step says so. A request's words (Request::what) may say what it does to the
// machine, or how the machine answers this request alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
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

/// The fault in all answers of a machine that neither hangs nor fails.
enum class Flaw : std::uint8_t {
  none,
  empty,  ///< 200 and nothing in it.
  page,     ///< An HTML page with status 200.
  asleep,   ///< The metrics page says that the engine sleeps, and requests stand.
  ill,      ///< The health path answers 503. All other answers are right.
  crashes,  ///< The process ends with its third request.
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
  void spoil(Flaw flaw);
  void mend();
  /// The machine answers chats 404; it has the model "b-adapter", which nobody else has.
  void lack_chats(bool lacks) { lacks_chats_ = lacks; }
  void have_adapter(bool has) { has_adapter_ = has; }
  bool is_dead() const { return !peer_; }
  bool is_hung() const { return hangs_; }
  bool is_ill() const { return hangs_ || fails_ || flaw_ != Flaw::none; }
  /// A request has ended the process, and kill() is to follow.
  bool is_ending() const { return ends_ && peer_; }
  /// Counts the requests of this word that have come.
  std::size_t came(const std::string& what) const;
  /// Waits until weir has read the metrics page again, and acts on it.
  void await_reading() const;
  /// False once it has been dead, hung or failing.
  bool was_always_well() const { return always_well_; }

 private:
  void start();
  void answer(integration::Exchange& exchange);
  void look_for_secrets(const integration::ReceivedRequest& request);
  /// Answers a request that stands or is answered wrongly. Returns false if it is neither.
  bool answer_wrongly(integration::Exchange& exchange, const std::string& what);
  bool answer_badly(integration::Exchange& exchange);
  void respond(integration::Exchange& exchange);
  std::optional<std::size_t> found();
  void stream(integration::Exchange& exchange, const std::string& id, const std::string& what);
  /// Waits while `why()`, unless all is over.
  template <class Why>
  void wait_while(const Why& why) const;

  Truth& truth_;
  const std::string label_;
  const bool has_key_;
  const std::uint16_t port_;
  const unsigned host_;
  std::atomic<bool> hangs_{false}, fails_{false}, ends_{false}, warm_{false}, always_well_{true};
  std::atomic<bool> lacks_chats_{false}, has_adapter_{false};
  std::atomic<Flaw> flaw_{Flaw::none};
  std::atomic<unsigned> until_crash_{0};
  mutable std::mutex mutex_;
  std::map<std::string, std::size_t> came_;  ///< By a request's word.
  std::set<std::string> kept_;               ///< Ids of responses.
  std::unique_ptr<integration::ScriptedReplica> peer_;
};

/// An answer of the word "talk" has so many tokens.
inline constexpr std::size_t talk_tokens = 8;
/// Returns a token of a stream: nobody else's stream has it.
std::string token_event(const std::string& id, std::size_t number);
/// Returns how its text begins, for those who look for it.
std::string token_text(const std::string& id, std::size_t number);

}  // namespace weir::model
