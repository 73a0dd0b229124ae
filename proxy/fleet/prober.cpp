#include "proxy/fleet/prober.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <cerrno>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "metrics/measure/stream_meter.hpp"
#include "metrics/ticks.hpp"
#include "proxy/events/events.hpp"
#include "proxy/fleet/keep_ticking.hpp"
#include "proxy/fleet/keep_running.hpp"
#include "proxy/fleet/question.hpp"
#include "proxy/fleet/replica_stream.hpp"
#include "proxy/net/awaitable.hpp"
#include "proxy/net/connect.hpp"
#include "proxy/net/tls/failure.hpp"

namespace weir::proxy::fleet {
namespace {

namespace asio = boost::asio;
using balancer::Sign;
using balancer::Testimony;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds prober_looks_every{50};
constexpr std::size_t probe_read_size = 4096;

/// Reads the status alone.
class StatusReader final : public AnswerReader {
 public:
  void head(const http::ResponseHead& head, metrics::Moment, metrics::Moment) override { status = head.status; }
  bool body(std::span<const char>, metrics::Moment) override { return false; }
  void end(bool, bool, metrics::Moment) override {}

  unsigned status = 0;
};

/// True for the answer of a replica that works and has no such path for weir.
bool has_no_health_path(unsigned status) { return status == 401 || status == 403 || status == 404 || status == 405; }

/// The signs that a replica works, whatever its probes say.
struct Activity {
  std::optional<metrics::Moment> answered;                      ///< Its last token or whole answer came then.
  Clock::time_point counters_moved = Clock::time_point::min();  ///< A page of its engine has shown that then.
  Clock::time_point at = Clock::time_point::min();              ///< The moment of this look.
};

Activity activity_of(const Replica& replica, balancer::Pool& books, Clock::time_point now) {
  Activity activity;
  activity.answered = books.health().last_life(replica.key, now);
  if (const auto engine = replica.state->engine.get(); engine.load) activity.counters_moved = engine.load->moved;
  activity.at = now;
  return activity;
}

/// True if the replica has worked between the two.
bool has_worked(const Activity& before, const Activity& now) {
  return now.answered != before.answered || now.counters_moved > before.at;
}

/// The result of one probe, empty where the failure is weir's own.
struct Probed {
  std::optional<Sign> sign;
  std::optional<Testimony> testimony;  ///< A connection alone is the kernel's: the process need not live.
  unsigned error = 0;                  ///< The health path answered with an error of this status.
};

Probed probed_by_status(const Replica& replica, const std::string& path, unsigned status) {
  if (status == 0) return {Sign::probe_failed, Testimony::mute};
  if (status / 100 == 2) return {Sign::probe_passed, Testimony::answered};
  if (!has_no_health_path(status)) return {Sign::probe_failed, Testimony::ill, status >= 400 ? status : 0};
  if (!std::exchange(replica.state->probe_connects, true))
    events::info(
        events::What::engine, replica.settings.name,
        "replica '{}' answers {} to GET {}: from now on its probe only connects; set [health] path for another",
        replica.settings.name, status, path);
  return {Sign::probe_passed, Testimony::answered};
}

/// A handshake that fails is said in the log, because the replica's state tells only that its probe failed.
Probed probed_by_connecting(const Replica& replica, int error) {
  if (error == 0) return {Sign::probe_passed, replica.tls ? std::optional(Testimony::answered) : std::nullopt};
  if (net::is_local_shortage(error)) return {};
  if (net::tls::is_failure(error)) {
    const auto line = replica.state->failures.failed("cannot connect: " + net::connect_error_text(error), Clock::now());
    if (line)
      events::warn(events::What::failure, replica.settings.name, "replica '{}' {}", replica.settings.name, *line);
  }
  return {error == ECONNREFUSED || error == ENOENT ? Sign::probe_refused : Sign::probe_failed, Testimony::mute};
}

/// The address that worked last is tried first from now on. The control thread alone changes addresses.
void prefer(const Replica& replica, const std::optional<net::Address>& chosen) {
  auto& state = *replica.state;
  const auto first = state.address.get();
  auto others = state.other_addresses.get();
  const auto found = chosen ? std::ranges::find(others, *chosen) : others.end();
  if (!first || found == others.end()) return;
  *found = *first;
  state.address.set(chosen);
  state.other_addresses.set(std::move(others));
  events::info(events::What::discovery, replica.settings.name, "replica '{}': connections go to {} now, {} takes none",
               replica.settings.name, chosen->to_text(), first->to_text());
}

/// `any_answer`: an HTTP answer is wanted, even of a replica without a health path.
net::Awaitable<Probed> probe(std::shared_ptr<const Replica> replica, config::Health settings, bool any_answer) {
  auto destination = replica->destination();
  if (!destination) co_return Probed();
  const auto executor = co_await asio::this_coro::executor;
  ReplicaStream stream(executor, std::move(*destination), metrics::ticks(settings.timeout));
  const auto error = co_await stream.connect();
  prefer(*replica, stream.chosen());
  if (error != 0 || settings.path.empty() || (replica->state->probe_connects && !any_answer))
    co_return probed_by_connecting(*replica, error);
  Question question;
  question.path = settings.path;
  question.credential = bearer(replica->settings.api_key);
  const auto bytes = bytes_of(replica->settings.url, question);
  co_await stream.write(bytes);
  StatusReader reader;
  ReplicaAnswer answer(reader, Clock::now());
  std::vector<char> buffer(probe_read_size + metrics::measure::StreamMeter::padding);
  const std::span<char> into(buffer.data(), probe_read_size);
  while (reader.status == 0) {
    const auto read = co_await stream.read(into);
    if (read.size <= 0 || answer.arrived(into.first(static_cast<std::size_t>(read.size)), read.at)) break;
  }
  if (const int refused = stream.refusal()) co_return probed_by_connecting(*replica, refused);
  co_return probed_by_status(*replica, settings.path, reader.status);
}

/// The probes own the prober, so that a late one finds it.
class Prober : public std::enable_shared_from_this<Prober> {
 public:
  Prober(asio::io_context& context, const Fleet& fleet, std::uint64_t seed)
      : context_(context), fleet_(fleet), random_(seed) {}

  void tick() {
    const auto snapshot = fleet_.snapshot();
    if (std::exchange(snapshot_, snapshot) != snapshot) snapshot->keep_known(probes_);
    const auto now = Clock::now();
    snapshot->each_replica([&](const PoolRuntime& pool, const std::shared_ptr<const Replica>& replica) {
      auto& probes = probes_[replica->state->id];
      const auto wait = pool.balancer->health().of(replica->key, now).probe_after * probes.spread;
      if (!probes.under_way && now >= probes.last + metrics::ticks(wait)) begin(pool, replica, probes);
    });
    snapshot->each_pool([&](const auto& pool) {
      tell_changes(*pool, now);
      ask_witnesses(*pool);
    });
  }

 private:
  struct Probes {
    Clock::time_point last = Clock::time_point::min();  ///< The end of the last one.
    double spread = 1;                                  ///< A fifth more or less than the interval.
    Activity activity{};                                ///< The signs at that moment.
    bool under_way = false;
    bool suspected = false;  ///< The replica may hang: it is to be probed at once.
  };

  /// Asks the health path and the counters of each replica that has become suspect, also of a leaving one.
  void ask_witnesses(const PoolRuntime& pool) {
    for (const auto& suspect : pool.balancer->health().take_suspects()) {
      const auto replica = std::static_pointer_cast<Replica>(suspect.subject);
      replica->state->suspected_at = suspect.since;
      auto& probes = probes_[replica->state->id];
      probes.suspected = true;
      if (!probes.under_way) begin(pool, replica, probes);
    }
  }

  void begin(const PoolRuntime& pool, const std::shared_ptr<const Replica>& replica, Probes& probes) {
    probes.under_way = true;
    const auto begun = Clock::now();
    const bool suspected = std::exchange(probes.suspected, false);
    // The kernel takes the connections of a process that hangs: one that is out has to answer before it is back.
    const auto state = pool.balancer->health().of(replica->key, begun).state;
    const bool out = state == metrics::ReplicaState::down || state == metrics::ReplicaState::ejected;
    auto over = [self = shared_from_this(), replica, books = pool.balancer, begun,
                 before = activity_of(*replica, *pool.balancer, begun)](const std::exception_ptr& failure,
                                                                    const Probed& probed) {
      note_failure(self->fleet_.internal_errors(), Part::prober, failure, "the next probe is asked as usual");
      noting_failure(self->fleet_.internal_errors(), Part::prober, "what the probe showed is lost",
                     [&] { self->take(*replica, *books, failure ? Probed() : probed, begun, before); });
    };
    asio::co_spawn(context_, probe(replica, pool.settings.health, suspected || out), std::move(over));
  }

  /// Takes the result of a probe that began at `begun`, with the signs of that moment in `before`.
  void take(const Replica& replica, balancer::Pool& books, Probed probed, Clock::time_point begun,
            const Activity& before) {
    const auto found = probes_.find(replica.state->id);
    if (found == probes_.end()) return;  // The replica is no longer in the settings.
    auto& ended = found->second;
    ended.under_way = false;
    const auto now = Clock::now();
    const auto activity = activity_of(replica, books, now);
    // A busy engine answers a probe late. Work done meanwhile excuses that, and the probe does not count as passed
    // either. For a probe without an answer, work counts only from its beginning. An error is the replica's word that
    // it is to get nothing new: work is no excuse, and only contradicts that the replica hangs.
    const bool late = probed.testimony == Testimony::mute;
    if (probed.sign == Sign::probe_failed && has_worked(late ? before : ended.activity, activity)) {
      probed.testimony.reset();
      if (probed.error == 0) probed.sign = Sign::probe_excused;
    }
    if (probed.sign == Sign::probe_failed || probed.sign == Sign::probe_refused) replica.state->connect_failed = true;
    ended.last = ended.suspected ? Clock::time_point::min() : now;
    ended.spread = std::uniform_real_distribution(0.8, 1.2)(random_);
    ended.activity = activity;
    if (probed.error != 0)
      books.health().ill(replica.key, probed.error, now);
    else if (probed.sign)
      books.health().report(replica.key, *probed.sign, now);
    if (probed.testimony) books.health().testify(replica.key, *probed.testimony, begun, now);
  }

  static void tell_changes(const PoolRuntime& pool, Clock::time_point now) {
    for (const auto& [replica, subject, change] : pool.balancer->health().take_changes(now)) {
      // The loops end those attempts on the replica that began before and have shown nothing.
      if (change.hung)
        std::static_pointer_cast<Replica>(subject)->state->leaves.hung_at.store(change.at, std::memory_order_relaxed);
      const bool worse = change.to == metrics::ReplicaState::down || change.to == metrics::ReplicaState::ejected;
      events::tell(events::What::state, replica, worse ? events::Level::warn : events::Level::info,
                   "replica '{}' is {}, it was {}: {}", replica, metrics::name_of(change.to),
                   metrics::name_of(change.from), change.reason);
    }
  }

  asio::io_context& context_;
  const Fleet& fleet_;
  std::mt19937_64 random_;
  std::shared_ptr<const Snapshot> snapshot_;
  std::map<std::uint64_t, Probes> probes_;  ///< The key is ReplicaState::id.
};

}  // namespace

void start_prober(asio::io_context& context, const Fleet& fleet, std::uint64_t seed) {
  keep_running(context, fleet.internal_errors(), Part::prober, [&context, &fleet, seed] {
    return keep_ticking(std::make_shared<Prober>(context, fleet, seed), prober_looks_every);
  });
}

}  // namespace weir::proxy::fleet
