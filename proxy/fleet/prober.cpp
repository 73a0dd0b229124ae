#include "proxy/fleet/prober.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <cerrno>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "metrics/measure/stream_meter.hpp"
#include "metrics/ticks.hpp"
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

/// Wants the status alone.
class StatusReader final : public AnswerReader {
 public:
  void head(const http::ResponseHead& head, metrics::Moment, metrics::Moment) override { status = head.status; }
  bool body(std::span<const char>, metrics::Moment) override { return false; }
  void end(bool, bool, metrics::Moment) override {}

  unsigned status = 0;
};

/// It answers, and has no such path for us.
bool has_no_health_path(unsigned status) { return status == 401 || status == 403 || status == 404 || status == 405; }

/// What moves while a replica works, whatever its probes say.
struct Life {
  std::optional<metrics::Moment> answered;                      ///< Its last token or whole answer came then.
  Clock::time_point counters_moved = Clock::time_point::min();  ///< A page of its engine has shown that then.
  Clock::time_point at = Clock::time_point::min();              ///< All this was looked at then.
};

/// The books tell a replica from another one of its name, which has the same series.
Life life_of(const Replica& replica, balancer::Pool& books, Clock::time_point now) {
  Life life;
  life.answered = books.health().last_life(replica.key, now);
  if (const auto engine = replica.state->engine.get(); engine.load) life.counters_moved = engine.load->moved;
  life.at = now;
  return life;
}

/// True if it has worked between the two.
bool has_worked(const Life& before, const Life& now) {
  return now.answered != before.answered || now.counters_moved > before.at;
}

/// The result of one probe, empty where the failure is weir's own.
struct Probed {
  std::optional<Sign> sign;
  std::optional<Testimony> testimony;  ///< A connection alone is the kernel's: the process need not live.
};

Probed probed_by_status(const Replica& replica, const std::string& path, unsigned status) {
  if (status == 0) return {Sign::probe_failed, Testimony::mute};
  if (status / 100 == 2) return {Sign::probe_passed, Testimony::answered};
  if (!has_no_health_path(status)) return {Sign::probe_failed, Testimony::ill};
  if (!std::exchange(replica.state->probe_connects, true))
    spdlog::info(
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
    if (line) spdlog::warn("replica '{}' {}", replica.settings.name, *line);
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
  spdlog::info("replica '{}': connections go to {} now, {} takes none", replica.settings.name, chosen->to_text(),
               first->to_text());
}

/// `any_answer`: one is wanted, even of a replica without a health path.
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

/// Its probes own it, so that one that ends late finds it.
class Prober : public std::enable_shared_from_this<Prober> {
 public:
  Prober(asio::io_context& context, const Fleet& fleet, std::uint64_t seed)
      : context_(context), fleet_(fleet), random_(seed) {}

  void tick() {
    const auto snapshot = fleet_.snapshot();
    if (snapshot != snapshot_) follow(snapshot);
    const auto now = Clock::now();
    snapshot->each_replica([&](const PoolRuntime& pool, const std::shared_ptr<const Replica>& replica) {
      auto& probes = probes_[replica->state->id];
      const auto wait = pool.balancer->health().of(replica->key, now).probe_after * probes.spread;
      if (!probes.under_way && now >= probes.last + metrics::ticks(wait)) begin(pool, replica, probes);
    });
    for (const auto* pools : {&snapshot->all_pools, &snapshot->leaving_pools}) {
      for (const auto& pool : *pools) {
        tell_changes(*pool, now);
        ask_witnesses(*pool);
      }
    }
  }

 private:
  struct Probes {
    Clock::time_point last = Clock::time_point::min();  ///< The end of the last one.
    double spread = 1;                                  ///< A fifth more or less than the interval.
    Life life{};                                        ///< So much had come by then.
    bool under_way = false;
    bool suspected = false;  ///< The replica may hang: it is to be probed at once.
  };

  /// Asks the door and the counters of each replica that has become suspect; of one that is leaving, too.
  void ask_witnesses(const PoolRuntime& pool) {
    for (const auto& suspect : pool.balancer->health().take_suspects()) {
      const auto replica = std::static_pointer_cast<Replica>(suspect.subject);
      replica->state->suspected_at = suspect.since;
      auto& probes = probes_[replica->state->id];
      probes.suspected = true;
      if (!probes.under_way) begin(pool, replica, probes);
    }
  }

  void follow(const std::shared_ptr<const Snapshot>& snapshot) {
    snapshot_ = snapshot;
    std::map<std::uint64_t, Probes> kept;
    snapshot->each_replica([&](const PoolRuntime&, const std::shared_ptr<const Replica>& replica) {
      kept.insert({replica->state->id, probes_[replica->state->id]});
    });
    probes_ = std::move(kept);
  }

  void begin(const PoolRuntime& pool, const std::shared_ptr<const Replica>& replica, Probes& probes) {
    probes.under_way = true;
    const auto begun = Clock::now();
    const bool suspected = std::exchange(probes.suspected, false);
    // The kernel takes the connections of a process that hangs: one that is out has to answer before it is back.
    const auto state = pool.balancer->health().of(replica->key, begun).state;
    const bool out = state == metrics::ReplicaState::down || state == metrics::ReplicaState::ejected;
    auto over = [self = shared_from_this(), replica, books = pool.balancer, begun,
                 before = life_of(*replica, *pool.balancer, begun)](const std::exception_ptr& failure,
                                                                    const Probed& probed) {
      note_failure(self->fleet_.internal_errors(), Part::prober, failure, "the next probe is asked as usual");
      noting_failure(self->fleet_.internal_errors(), Part::prober, "what the probe showed is lost",
                     [&] { self->take(*replica, *books, failure ? Probed() : probed, begun, before); });
    };
    asio::co_spawn(context_, probe(replica, pool.settings.health, suspected || out), std::move(over));
  }

  /// The probe began at `begun`, when so much life `before` was there.
  void take(const Replica& replica, balancer::Pool& books, Probed probed, Clock::time_point begun,
            const Life& before) {
    const auto found = probes_.find(replica.state->id);
    if (found == probes_.end()) return;  // The replica is no longer in the settings.
    auto& ended = found->second;
    ended.under_way = false;
    const auto now = Clock::now();
    const auto life = life_of(replica, books, now);
    // A busy engine says that it is not well, or answers late. Work is life then, though it is no passed probe. A
    // probe that got no answer is not excused by what came before it began.
    const bool late = probed.testimony == Testimony::mute;
    const bool worked = has_worked(late ? before : ended.life, life);
    if (probed.sign == Sign::probe_failed && worked) probed = {Sign::probe_excused, std::nullopt};
    if (probed.sign == Sign::probe_failed || probed.sign == Sign::probe_refused) replica.state->connect_failed = true;
    ended.last = ended.suspected ? Clock::time_point::min() : now;
    ended.spread = std::uniform_real_distribution(0.8, 1.2)(random_);
    ended.life = life;
    if (probed.sign) books.health().report(replica.key, *probed.sign, now);
    if (probed.testimony) books.health().testify(replica.key, *probed.testimony, begun, now);
  }

  /// The loops end those attempts on the replica that began before and have shown nothing.
  static void note_hung(const std::shared_ptr<void>& subject, Clock::time_point at) {
    std::static_pointer_cast<Replica>(subject)->state->hung_at.store(at, std::memory_order_relaxed);
  }

  static void tell_changes(const PoolRuntime& pool, Clock::time_point now) {
    for (const auto& [replica, subject, change] : pool.balancer->health().take_changes(now)) {
      if (change.hung) note_hung(subject, change.at);
      const bool worse = change.to == metrics::ReplicaState::down || change.to == metrics::ReplicaState::ejected;
      spdlog::log(worse ? spdlog::level::warn : spdlog::level::info, "replica '{}' is {}, it was {}: {}", replica,
                  metrics::name_of(change.to), metrics::name_of(change.from), change.reason);
    }
  }

  asio::io_context& context_;
  const Fleet& fleet_;
  std::mt19937_64 random_;
  std::shared_ptr<const Snapshot> snapshot_;
  std::map<std::uint64_t, Probes> probes_;  ///< By ReplicaState::id.
};

}  // namespace

void start_prober(asio::io_context& context, const Fleet& fleet, std::uint64_t seed) {
  keep_running(context, fleet.internal_errors(), Part::prober, [&context, &fleet, seed] {
    return keep_ticking(std::make_shared<Prober>(context, fleet, seed), prober_looks_every);
  });
}

}  // namespace weir::proxy::fleet
