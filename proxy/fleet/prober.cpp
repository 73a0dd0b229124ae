#include "proxy/fleet/prober.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cerrno>
#include <map>
#include <random>
#include <vector>

#include "metrics/measure/stream_meter.hpp"
#include "metrics/ticks.hpp"
#include "proxy/fleet/keep_looking.hpp"
#include "proxy/fleet/question.hpp"
#include "proxy/fleet/replica_stream.hpp"
#include "proxy/net/awaitable.hpp"
#include "proxy/net/connect.hpp"
#include "proxy/net/tls/failure.hpp"

namespace weir::proxy::fleet {
namespace {

namespace asio = boost::asio;
using balancer::Sign;
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
  std::uint64_t output_tokens = 0;
  std::optional<double> engine_counters;  ///< They are of the last reading of its metrics page.
  bool operator==(const Life&) const = default;
};

Life life_of(const ReplicaRuntime& replica) {
  Life life;
  for (const auto& shard : replica.series->shards()) life.output_tokens += shard->output_tokens.value();
  const auto engine = replica.state->engine.get();
  if (engine.load) life.engine_counters = engine.load->counters;
  return life;
}

/// True if it has worked between the two. Counters that are read for the first time show nothing.
bool has_worked(const Life& before, const Life& now) {
  return now.output_tokens != before.output_tokens ||
         (before.engine_counters && now.engine_counters && *now.engine_counters > *before.engine_counters);
}

Sign sign_of_status(const ReplicaRuntime& replica, const std::string& path, unsigned status) {
  if (status / 100 == 2) return Sign::probe_passed;
  if (!has_no_health_path(status)) return Sign::probe_failed;
  replica.state->probe_connects = true;
  spdlog::info("replica '{}' answers {} to GET {}: from now on its probe only connects; set [health] path for another",
               replica.settings.name, status, path);
  return Sign::probe_passed;
}

/// Nothing, where the failure is weir's own. A handshake that fails is said in the log, because the replica's state
/// tells only that its probe failed.
std::optional<Sign> sign_of_connecting(const ReplicaRuntime& replica, int error) {
  if (error == 0) return Sign::probe_passed;
  if (net::is_local_shortage(error)) return std::nullopt;
  if (net::tls::is_failure(error)) {
    const auto line = replica.state->failures.failed("cannot connect: " + net::connect_error_text(error), Clock::now());
    if (line) spdlog::warn("replica '{}' {}", replica.settings.name, *line);
  }
  return error == ECONNREFUSED || error == ENOENT ? Sign::probe_refused : Sign::probe_failed;
}

net::Awaitable<std::optional<Sign>> probe(std::shared_ptr<const ReplicaRuntime> replica, config::Health settings) {
  auto destination = replica->destination();
  if (!destination) co_return std::nullopt;
  const auto executor = co_await asio::this_coro::executor;
  ReplicaStream stream(executor, std::move(*destination), metrics::ticks(settings.timeout));
  const auto error = co_await stream.connect();
  if (error != 0 || settings.path.empty() || replica->state->probe_connects)
    co_return sign_of_connecting(*replica, error);
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
    const auto size = co_await stream.read(into);
    if (size <= 0 || answer.arrived(into.first(static_cast<std::size_t>(size)), Clock::now())) break;
  }
  if (const int refused = stream.refusal()) co_return sign_of_connecting(*replica, refused);
  co_return sign_of_status(*replica, settings.path, reader.status);
}

class Prober {
 public:
  Prober(asio::io_context& context, const Fleet& fleet, std::uint64_t seed)
      : context_(context), fleet_(fleet), random_(seed) {}

  void look() {
    const auto world = fleet_.world();
    if (world != world_) follow(world);
    const auto now = Clock::now();
    for (const auto& pool : world->all_pools) look_at(*pool, now);
    for (const auto& pool : world->leaving_pools) look_at(*pool, now);
  }

 private:
  struct Probes {
    Clock::time_point last{};  ///< The end of the last one.
    double spread = 1;         ///< A fifth more or less than the interval.
    Life life{};               ///< So much had come by then.
    bool under_way = false;
  };

  void look_at(const PoolRuntime& pool, Clock::time_point now) {
    for (const auto& replica : pool.replicas) {
      auto& probes = probes_[replica->state->id];
      const auto wait = pool.balancer->health(replica->key, now).probe_after * probes.spread;
      if (!probes.under_way && now >= probes.last + metrics::ticks(wait)) begin(pool, replica, probes);
    }
    tell_changes(pool, now);
  }

  void follow(const std::shared_ptr<const World>& world) {
    world_ = world;
    std::map<std::uint64_t, Probes> kept;
    for (const auto* pools : {&world->all_pools, &world->leaving_pools})
      for (const auto& pool : *pools)
        for (const auto& replica : pool->replicas) kept.insert({replica->state->id, probes_[replica->state->id]});
    probes_ = std::move(kept);
  }

  void begin(const PoolRuntime& pool, const std::shared_ptr<ReplicaRuntime>& replica, Probes& probes) {
    probes.under_way = true;
    auto over = [this, replica, books = pool.balancer](const std::exception_ptr&, std::optional<Sign> sign) {
      const auto found = probes_.find(replica->state->id);
      if (found == probes_.end()) return;  // The replica is no longer in the settings.
      const auto now = Clock::now();
      const auto life = life_of(*replica);
      // A busy engine answers its probe late: work since the last probe is life, as good as a passed one.
      if (sign == Sign::probe_failed && has_worked(found->second.life, life)) sign = Sign::probe_passed;
      if (sign == Sign::probe_failed || sign == Sign::probe_refused) replica->state->connect_failed = true;
      found->second = {now, std::uniform_real_distribution(0.8, 1.2)(random_), life, false};
      if (sign) books->report(replica->key, *sign, now);
    };
    asio::co_spawn(context_, probe(replica, pool.settings.health), std::move(over));
  }

  /// The loops end those attempts on the replica that began before and have shown nothing.
  static void note_hung(const std::shared_ptr<void>& subject, Clock::time_point at) {
    std::static_pointer_cast<ReplicaRuntime>(subject)->state->hung_at.store(at, std::memory_order_relaxed);
  }

  static void tell_changes(const PoolRuntime& pool, Clock::time_point now) {
    for (const auto& [replica, subject, change] : pool.balancer->take_changes(now)) {
      if (change.hung) note_hung(subject, change.at);
      const bool worse = change.to == metrics::ReplicaState::down || change.to == metrics::ReplicaState::ejected;
      spdlog::log(worse ? spdlog::level::warn : spdlog::level::info, "replica '{}' is {}, it was {}: {}", replica,
                  metrics::name_of(change.to), metrics::name_of(change.from), change.reason);
    }
  }

  asio::io_context& context_;
  const Fleet& fleet_;
  std::mt19937_64 random_;
  std::shared_ptr<const World> world_;
  std::map<std::uint64_t, Probes> probes_;  ///< By ReplicaState::id.
};

}  // namespace

void start_prober(asio::io_context& context, const Fleet& fleet, std::uint64_t seed) {
  auto prober = std::make_shared<Prober>(context, fleet, seed);
  asio::co_spawn(context, keep_looking(std::move(prober), prober_looks_every), asio::detached);
}

}  // namespace weir::proxy::fleet
