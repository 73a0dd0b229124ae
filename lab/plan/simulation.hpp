// weir in front of simulated engines, in simulated time: what policies, queues, health and retries make of a trace.
//
// Real are the pool with its ledger, learned times, estimator, queue and health; the story of each request; the
// requests' bodies, read by the request inspector, so that prompts have to be estimated; and the engine models that
// `weir-lab sim` runs. Time, the engines and the connections are simulated; weir's own I/O costs nothing.
//
// Plain health checks can stand in weir's place: they hear of a replica only by its probes, have no queue, and retry
// nothing but refused connections. So can other routers (peers.hpp): they know at once who is down, and send a request
// that failed before its first token to another replica.
//
// A request may have a parent, the turn before it: then it comes some time after that is over, as a user's or an
// agent's does. Such a load is closed, since a router that answers late gets the next turn late.
//
// A run is deterministic by seed and costs about 0.1 s for 2,000 requests (-O2).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "balancer/pool.hpp"
#include "balancer/story/story.hpp"
#include "lab/engine/engine_model.hpp"
#include "lab/engine/memory.hpp"
#include "lab/plan/peers.hpp"
#include "lab/plan/traffic.hpp"

namespace weir::lab::plan {

/// Returns four default engines, of which the last runs at `slow_speed`.
std::vector<engine::EngineSettings> four_engines(double slow_speed = 1);

/// Hears what a simulation does with requests that go through weir.
class Watcher {
 public:
  virtual ~Watcher() = default;
  /// A replica gets the request, or another replica's turn has come.
  virtual void placed(std::size_t request, std::size_t replica) = 0;
  /// The replica has it no more.
  virtual void left(std::size_t request, std::size_t replica) = 0;
  /// An engine gives a token of a request, or of a copy (Simulation::copy).
  virtual void token(std::size_t engine, const engine::TokenEvent& event) = 0;
  /// The client has been told everything; `outcome` is that of the answer.
  virtual void finished(std::size_t request, metrics::Outcome outcome) = 0;
};

struct Setup {
  std::vector<engine::EngineSettings> engines;
  config::Policy policy = config::Policy::least_queued_tokens;
  std::uint64_t seed = 1;  ///< Seeds the pool's choices.
  std::uint64_t engine_seed =
      1;                       ///< Seeds the first engine. The seeds of the others, and of restarted engines, follow.
  bool plain = false;          ///< Plain health checks in weir's place.
  std::optional<Peer> peer{};  ///< This router in weir's place,
  std::shared_ptr<Router> router{};  ///< or this one.
  bool prefix_aware = false;         ///< weir counts what replicas hold of prompts.
  bool probes = true;                ///< Replicas are probed, and their health is looked after.
  bool endless_queue = false;        ///< Every request waits as long as it takes.
  bool kv_tokens_known = false;      ///< The pool knows the size of the engines' KV caches.
  /// The reports of engines with prefix caching. The others report nothing.
  engine::CacheReport cache_report = engine::CacheReport::exact;
  std::size_t absent = 0;      ///< So many of the engines, the last ones, are not there before join().
  std::size_t candidates = 0;  ///< So many of the engines, the last ones, belong to the candidate of a split.
  /// Engines that are no replicas, and get nothing but copies. They come after the others; none of these is absent.
  std::vector<engine::EngineSettings> beside{};
  Watcher* watcher = nullptr;  ///< Outlives the simulation.
};

/// The course of one request.
struct Served {
  double arrived = never;      ///< `never` if its parent was not over by the end.
  std::optional<double> ttft;  ///< Seconds from arrival.
  std::optional<double> tpot;  ///< Seconds per output token after the first.
  /// As weir expected the times when it chose the last replica.
  std::optional<balancer::PredictedTimes> predicted{};
  std::optional<double> e2e;        ///< Seconds from arrival to the last token.
  double estimate = 0;              ///< The prompt's estimated tokens by its true tokens.
  std::uint64_t cached_tokens = 0;  ///< Prompt tokens that its last replica had.
  std::vector<std::size_t> asked;   ///< The replicas that had it, in order.
  std::vector<double> asked_at;     ///< When they had it.
  bool over = false;
};

struct Results {
  std::vector<Served> requests;
  std::vector<std::uint64_t> prefilled;  ///< Prompt tokens that each replica computed.
  struct Change {
    double at = 0;
    std::size_t replica = 0;
    balancer::ReplicaState to{};
  };
  std::vector<Change> changes;
  /// Replicas that had nothing while another had two requests or more. Requests in weir's queue do not count.
  struct Idle {
    double from = 0, to = 0;
    std::size_t replicas = 0;
  };
  std::vector<Idle> idle;
  std::size_t failed = 0;   ///< Requests that failed, or got a wrong answer, before anything else was sent.
  std::size_t broken = 0;   ///< Streams that broke off.
  std::size_t refused = 0;  ///< Requests that were refused: full, too late or expired.
};

class Simulation final : public balancer::GrantSink {
 public:
  /// Copies of requests have ids from here on.
  static constexpr engine::SequenceId first_copy = engine::SequenceId{1} << 40;

  struct Errors {
    bool wrong_model = false;                          ///< Every request gets 404.
    std::function<bool(std::size_t request)> fails{};  ///< Requests for which it is true get 500.
  };

  explicit Simulation(const Setup& setup);
  ~Simulation();

  // The script of what happens to the replicas, to be written before serve().

  /// Returns the engines, those of replicas first, and what is to happen when.
  Timeline& line() { return line_; }
  const Timeline& line() const { return line_; }
  void kill(std::size_t replica);
  /// Restarts the replica with an empty engine.
  void restart(std::size_t replica);
  void hang(std::size_t replica) {
    servers_[replica].hangs = true;
    line_.engines[replica].stand_still();
  }
  /// A new weir, which has learned nothing, takes the requests that come from now on. Those in flight stay with the old
  /// one, and the new one does not know of them. A peer starts anew as well, but knows how many are in flight.
  void restart_weir();
  /// The next of the absent replicas comes.
  void join();
  /// Returns what a replica answers with errors.
  Errors& errors_of(std::size_t replica) { return servers_[replica].errors; }
  /// Gives an engine a copy of a request, with an id from first_copy on and an answer of its own length.
  void copy(std::size_t request, std::size_t engine, engine::SequenceId id, std::uint64_t output_tokens);
  balancer::Pool& pool() { return *pool_; }
  /// Returns the course of a request so far.
  const Served& course(std::size_t request) const { return results_.requests[request]; }
  /// Ends serve() at the next moment.
  void stop() { stopped_ = true; }
  void drain(std::size_t replica, bool draining);
  balancer::ReplicaLoad load(std::size_t replica);

  /// Sends the requests, `rate` of them a second, those that arrive before `end`; and goes on until `last`, or until
  /// all are over. Parents stand before their children, and requests without parents in the order of their arrival.
  Results serve(std::span<const TracedRequest> requests, double rate, double end = never, double last = never);

 private:
  struct Server {
    double probe_at = 0;
    bool alive = true, hangs = false;
    Errors errors{};
  };
  struct Request {
    std::unique_ptr<balancer::story::Story> story;
    std::vector<balancer::Serial> tried;  ///< Used by plain health checks and peers only.
    balancer::Lease lease;
    balancer::Pool* pool = nullptr;  ///< That of the story.
    std::optional<balancer::WaitTicket> ticket;
    double deadline = never;
    std::optional<std::size_t> on;  ///< The replica that works on it.
  };

  double now() const { return line_.now(); }
  void at(double time, std::function<void()> what) { line_.at(time, std::move(what)); }
  balancer::Moment moment() const { return moment(now()); }
  static balancer::Moment moment(double seconds);
  static constexpr double tick_every = 0.05, probe_time_out = 5, wrong_answer_takes = 0.002;

  void arrive(std::size_t i);
  void follow(std::size_t i, balancer::story::Command command);
  balancer::story::Command ask(std::size_t i);
  balancer::story::Command leased(std::size_t i, balancer::Lease lease);
  bool connect(std::size_t i, balancer::story::Command& next);
  void ask_plainly(std::size_t i);
  void ask_peer(std::size_t i);
  void fails_soon(std::size_t i, std::size_t replica);
  void placed(std::size_t i, std::size_t replica);
  bool begins(std::size_t i, std::size_t replica);
  balancer::story::Command over(std::size_t i, balancer::story::AttemptOver over);
  void break_off(std::size_t i, balancer::story::End end);
  void token(std::size_t replica, const engine::TokenEvent& event);
  void finish(std::size_t i);
  void ended(std::size_t i);
  std::shared_ptr<balancer::Pool> make_pool();
  void add_replica();
  void name_replicas();
  void note_idle();
  void leaves_replica(std::size_t i);
  engine::Sequence sequence_of(std::size_t i) const;
  void grant(std::vector<balancer::Granted> granted) noexcept override;
  void take_grants();
  void tick();
  void probe(std::size_t replica);
  void probed(std::size_t replica, balancer::Sign sign, double begun);
  template <class Does>
  void each_on(std::size_t replica, bool without_token, const Does& does);

  const Setup setup_;
  const bool has_weir_;
  std::uint64_t seed_;
  Timeline line_;
  std::shared_ptr<balancer::Pool> pool_;
  std::vector<std::shared_ptr<balancer::Pool>> old_pools_;  ///< Of weirs before restarts.
  balancer::story::RetryBudget budget_;
  balancer::story::PoisonMemory poison_;
  std::vector<balancer::ReplicaSpec> specs_;
  std::vector<balancer::ReplicaKey> keys_;
  std::vector<std::unique_ptr<balancer::story::UsageOption>> usage_;
  std::vector<Server> servers_;
  std::shared_ptr<Router> router_;
  std::vector<std::uint32_t> in_flight_;  ///< At each replica.
  double in_flight_since_ = 0;
  std::vector<std::uint64_t> lost_prefill_;  ///< Prompt tokens that engines computed that are no longer there.
  std::span<const TracedRequest> traced_;
  std::vector<std::vector<std::size_t>> children_;
  std::size_t left_ = 0;  ///< Requests that are not over.
  bool stopped_ = false;
  std::deque<Request> requests_;
  std::set<std::size_t> waiting_;
  std::deque<balancer::Granted> granted_;
  Results results_;
};

}  // namespace weir::lab::plan
