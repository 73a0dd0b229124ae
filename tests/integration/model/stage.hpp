// Where a sequence is played: machines, clients, a nameserver and a weir. Each step changes the model and is done to
// them, and the next one begins when its effect can be seen.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/integration/model/client.hpp"
#include "tests/integration/model/machine.hpp"
#include "tests/integration/model/model.hpp"
#include "tests/integration/model/outside.hpp"
#include "tests/integration/peers/tls_bridge.hpp"
#include "tests/integration/peers/weir_under_test.hpp"

namespace weir::model {

/// An immediate effect has happened by then, on a busy machine too.
inline constexpr std::chrono::seconds at_most{15};

/// An invariant that does not hold. The text begins with its number: "I1: ...".
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Weir's own account at one moment.
struct Page {
  std::string text;
  integration::MetricsPage metrics;
};

/// The ways of single-out, in this order.
enum class Odd : std::uint8_t {
  limited,  ///< 429 with a Retry-After of a minute to one client.
  crowded,  ///< 429 without.
  invalid,  ///< A fault of the request's own, inside a 200 stream.
  nowhere,  ///< One client polls a route that no replica has, while one replica lacks the route of the others.
  adapter,  ///< One replica has an adapter that no list names.
  state,    ///< Conversations whose state is at one replica each. One is added meanwhile.
  deadly,   ///< A request ends the process of the replica.
  numbing,  ///< A request makes the replica stand still.
};

class Stage {
 public:
  explicit Stage(Outside& outside);
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// Does a step. Returns false if there was nothing to do. Throws Violation.
  bool play(const Operation& step);
  /// Brings everything to rest: machines are well, streams end, drains and switches are undone. It calls `watch` now
  /// and then.
  void come_to_rest(const std::function<void()>& watch);
  /// Reloads the settings with which weir began.
  void back_to_the_beginning();
  /// Ends weir with two TERMs while streams are under way.
  void ends_under_way();

  const Model& model() const { return model_; }
  /// Returns the name of the simulated replica that is stopped and has been out since, or "".
  std::string stopped_and_out() const;
  std::size_t flooded() const { return flooded_; }
  integration::WeirUnderTest& weir() { return *weir_; }
  const integration::WeirUnderTest& weir() const { return *weir_; }
  Truth& truth() { return truth_; }
  const std::vector<std::unique_ptr<Client>>& clients() const { return clients_; }
  Page page() const;
  /// Returns where clients come to weir now: behind a bridge, if weir speaks TLS.
  std::uint16_t door() const { return model_.speaks_tls ? bridges_.back().port() : weir_->port(); }
  /// Asks, and waits for the end.
  Answer ask(Request request);
  std::string new_id() { return "q" + std::to_string(++asked_) + "x"; }
  const Machine& machine(const Replica& replica) const { return *machines_[replica.machine]; }
  /// False if a machine that this replica has ever been on was ill at any time.
  bool was_always_well(const std::string& replica) const;
  /// Returns whether `done` becomes true within `at_most`.
  static bool look(const std::function<bool()>& done, std::chrono::milliseconds at_most);
  /// Clients whose answer has begun at this moment, by key or by replica.
  std::size_t under_way(const std::function<bool(const Client&)>& which) const;
  /// Counts streams under way that the replica has got since its settings last changed.
  std::size_t began_since_changed(const Replica& replica) const;
  /// The same of the first pool.
  std::size_t began_in_pool_since_changed() const;
  /// Counts what a drained replica has got since it was drained.
  std::size_t came_since_drained(const Replica& replica) const;
  /// Waits a little until replicas have gone that left with streams and have none any more.
  void await_departures();
  std::size_t files_at_the_beginning() const { return files_at_the_beginning_; }

 private:
  integration::WeirSettings settings() const;
  integration::WeirSettings settings_and_homes();
  void write_files() const;
  void reload();
  std::size_t times_said(const std::string& words) const { return integration::times_in(weir_->output(), words); }
  void leaves(const std::string& replica);
  void reload_wrongly(unsigned how);
  bool answer_names(unsigned bits);
  bool operate(const Operation& step);
  bool treat_machine(const Operation& step);
  bool await_out();
  bool single_out(const Operation& step);
  bool spoil(const Operation& step);
  Machine& beside_machine(std::size_t i) { return *machines_[beside(i).machine]; }
  /// Counts replicas of the pool "beside" that take requests and whose machine is well.
  std::size_t well_beside() const;
  std::set<std::string> ill_beside() const;
  /// Kills the machines of the pool "beside" that a request has ended.
  void end_struck();
  void send_poison(Odd odd);
  integration::Response ask_as_odd(Odd odd, const std::string& target, const std::string& body) const;
  void poll_nowhere(std::size_t at);
  void ask_for_adapter(std::size_t at);
  void converse();
  void be_refused(Odd odd);
  /// Counts requests of this word that have come to machines of that pool.
  std::size_t came_beside(const std::string& what) const;
  bool ask_as_client(const Operation& step);
  bool begin(std::vector<Request> requests);
  bool end_stream(unsigned a, bool leaves);
  bool storm(const Operation& step);
  bool stop_process(const Operation& step);
  bool go_on();
  bool come_back(const Operation& step);
  bool besiege(const Operation& step);
  bool change_keys();
  bool flood(const Operation& step);
  std::optional<std::string> free_fields(unsigned a) const;
  bool is_up(const std::string& replica) const;
  /// The replica is up, or starting.
  bool takes_requests(const std::string& replica) const;
  Request request(const Operation& step, const char* what);
  void wait_for_end(const Client& client, const std::string& what) const;
  std::string file(const char* name) const;

  Outside& outside_;
  Model model_;
  Truth truth_;
  const integration::TemporaryDirectory files_;
  const std::uint16_t admin_ = integration::free_port();
  std::vector<std::unique_ptr<Machine>> machines_, named_machines_;
  std::uint16_t named_port_ = integration::free_port();
  std::map<std::string, std::set<std::size_t>> homes_;          ///< By replica: the machines that it has been on.
  std::map<std::string, std::size_t> changed_at_, drained_at_;  ///< By replica: so many clients had asked then.
  std::map<std::string, std::size_t> leaving_;  ///< By replica: how often weir had said that it is gone.
  std::optional<integration::WeirUnderTest> weir_;
  std::list<integration::Bridge> bridges_;  ///< Clients come by the last one; streams are under way over the others.
  std::size_t pool_changed_at_ = 0;
  unsigned answered_ = 0;               ///< The addresses of the last answer that had any, as bits.
  std::optional<std::size_t> stopped_;  ///< The simulated replica that is stopped.
  std::optional<integration::Clock::time_point> stopped_is_out_;  ///< Since then.
  std::set<std::string> were_stopped_;
  bool bypassed_ = false;
  std::size_t files_at_the_beginning_ = 0, asked_ = 0, flooded_ = 0;
  std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace weir::model
