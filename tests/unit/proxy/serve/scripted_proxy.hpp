// weir's data path on scripted channels: a real loop with real sessions, exchanges and relays. The test plays the
// clients, the replicas and the clock's tick. Only the writer of the request log has a thread of its own.
#pragma once

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/moment.hpp"
#include "proxy/exchange/attempt_runner.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/net/address.hpp"
#include "proxy/serve/session.hpp"
#include "tests/unit/proxy/answers.hpp"
#include "tests/unit/proxy/net/scripted_channel.hpp"
#include "tests/unit/proxy/said.hpp"

namespace weir::proxy::serve {

using Clock = std::chrono::steady_clock;
inline constexpr std::size_t kib = 1024;
inline constexpr auto nanosecond = std::chrono::nanoseconds(1);
using Plan = std::vector<std::function<void(net::Peer&)>>;

/// Counts the whole requests in `bytes`, each with a Content-Length or no body.
inline std::size_t whole_requests(std::string_view bytes) {
  std::size_t count = 0;
  for (auto read = tests::read_request(bytes); read.whole; read = tests::read_request(read.rest)) ++count;
  return count;
}

class ScriptedProxy {
 public:
  using Change = std::function<void(config::Settings&)>;

  explicit ScriptedProxy(std::size_t replicas = 1, const Change& change = {})
      : settings_(settings_of(replicas, change)) {
    spdlog::set_level(spdlog::level::off);
    loop.connector = connector();
    for (const auto& pool : snapshot->pools)
      for (std::size_t i = 0; i < pool->replicas.size(); ++i)
        pool->replicas[i]->state->address.set(
            boost::asio::ip::tcp::endpoint(boost::asio::ip::address_v4::loopback(), static_cast<std::uint16_t>(1 + i)));
  }
  /// Has a single replica, which does this with the requests that it gets.
  explicit ScriptedProxy(Plan answers, const Change& change = {}) : ScriptedProxy(1, change) {
    plan[0] = std::move(answers);
  }
  /// Ends what still runs, because nobody else would.
  ~ScriptedProxy() {
    shared.cutting = true;
    tick(Clock::now());
    tick_in(10);
    grants.close();
    EXPECT_EQ(shared.connections.load(), 0u);
    EXPECT_EQ(shared.buffers.used(), 0u) << "nothing is held that would be paid for";
    spdlog::set_level(log_level_);
  }
  ScriptedProxy(const ScriptedProxy&) = delete;
  ScriptedProxy& operator=(const ScriptedProxy&) = delete;

  /// A client connects.
  std::shared_ptr<net::Peer> client() {
    auto peer = std::make_shared<net::Peer>(calls);
    peers_.push_back({peer, nullptr, 0});
    start_session(loop, std::make_unique<net::ScriptedChannel>(peer),
                  {.address = address, .count = ConnectionCount(loop)});
    return peer;
  }
  /// A client connects and sends this.
  std::shared_ptr<net::Peer> client(std::string_view bytes, std::size_t piece = net::Peer::any) {
    auto peer = client();
    peer->says(bytes, piece);
    return peer;
  }

  /// A client connects, sends this, and all happens that can happen without a deadline.
  std::shared_ptr<net::Peer> asks(std::string_view bytes, std::size_t piece = net::Peer::any) {
    auto peer = client(bytes, piece);
    run();
    return peer;
  }
  // A client or a replica does this, and all that follows happens.
  void hears(net::Peer& peer, std::string_view bytes, std::size_t piece = net::Peer::any) {
    peer.says(bytes, piece);
    run();
  }
  void ends(net::Peer& peer) {
    peer.ends();
    run();
  }
  void breaks(net::Peer& peer) {
    peer.breaks();
    run();
  }

  /// Lets all happen that can happen without a deadline.
  void run() {
    for (int rounds = 0; rounds < 100'000; ++rounds) {
      if (!turn()) return;
    }
    ADD_FAILURE() << "it does not come to rest";
  }
  /// Makes one report of each peer. Returns false if nothing was to be done.
  bool turn() {
    bool any = loop.context.poll() > 0;
    for (std::size_t i = 0; i < peers_.size(); ++i) {  // Connections are added meanwhile.
      act(i);
      const auto peer = peers_[i].peer;
      any = peer->report() || any;
      any = loop.context.poll() > 0 || any;
    }
    return any;
  }
  /// Makes one report of each peer, and lets no handler of the context run between them.
  void report_all() {
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      act(i);
      const auto peer = peers_[i].peer;
      peer->report();
    }
  }
  /// Plays the loop's tick at this moment, and what follows from it.
  void tick(metrics::Moment now) {
    loop.tick(now);
    run();
  }
  void tick_in(double seconds) { tick(Clock::now() + metrics::ticks(config::Seconds(seconds))); }
  /// Checks that the client's connection is closed after so long, and not a tenth of a second sooner.
  void expect_closed_after(double seconds, const net::Peer& client) {
    tick_in(seconds - 0.1);
    EXPECT_FALSE(client.closed());
    tick_in(seconds);
    EXPECT_TRUE(client.closed());
  }

  /// Returns what connects a loop with the replicas: port 1 is the first one's.
  std::unique_ptr<net::Connector> connector() { return std::make_unique<Connector>(*this); }

  /// The first connection that a replica has had.
  net::Peer& upstream(std::size_t replica = 0) { return *connections[replica].at(0); }
  fleet::Replica& replica(std::size_t index = 0) { return *snapshot->pools.front()->replicas[index]; }
  metrics::series::ReplicaShard& shard(std::size_t index = 0) { return replica(index).series->shard(0); }
  std::uint64_t limit_hits(metrics::series::Limit limit) { return loop.shard.limit_hits.value(limit); }
  std::uint64_t retries(metrics::series::Retry reason, std::size_t index = 0) {
    return shard(index).retries.value(reason);
  }

  /// Returns the lines of the request log so far.
  std::vector<std::string> log_lines() {
    log.flush();
    std::string text(1 << 20, '\0');
    const auto size = ::pread(log_file_.get(), text.data(), text.size(), 0);
    text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    std::vector<std::string> lines;
    for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
      lines.push_back(text.substr(at, end - at));
    return lines;
  }
  /// Checks that no request is left in anybody's books.
  void expect_at_rest() {
    auto& pool = *snapshot->pools.front()->balancer;
    EXPECT_EQ(pool.figures().in_flight(), 0u);
    EXPECT_EQ(pool.figures().queue(Clock::now()).waiting, 0u);
    for (std::size_t i = 0; i < snapshot->pools.front()->replicas.size(); ++i) {
      const auto load = pool.figures().load(replica(i).key.index, Clock::now() + std::chrono::hours(1));
      EXPECT_EQ(load.in_flight, 0u);
      EXPECT_EQ(load.prefill_left, 0u);
      EXPECT_EQ(load.decode_left, 0u);
      EXPECT_EQ(load.resident, 0u);
    }
    EXPECT_EQ(loop.streams.load(), 0u);
    EXPECT_EQ(shared.buffers.used(), 0u);
  }

  net::PeerAddress address{};  ///< The next clients come from here.
  net::Calls calls;
  /// A replica does this with the requests that it gets whole, in their order. The last step stands for all
  /// that follow.
  std::array<Plan, 4> plan;
  /// A replica does this with a connection instead of accepting it.
  std::array<std::function<void(net::Peer&)>, 4> on_connect;
  std::array<int, 4> refuses_at_once{};                                ///< The errno of connect().
  std::array<std::vector<std::shared_ptr<net::Peer>>, 4> connections;  ///< Each replica has had these.

 private:
  static config::Settings settings_of(std::size_t replicas, const Change& change) {
    config::Settings settings;
    config::Pool pool;
    pool.name = "pool";
    pool.policy = config::Policy::round_robin;
    pool.queue.requests = 0;  // Nobody waits unless a test says so.
    for (std::size_t i = 0; i < replicas; ++i) {
      config::Replica replica;
      replica.name = replica.config = "gpu" + std::to_string(i);
      replica.url.host = "127.0.0.1";
      replica.url.port = static_cast<std::uint16_t>(1 + i);
      replica.url.authority = "127.0.0.1:" + std::to_string(1 + i);
      pool.replicas.push_back(replica);
    }
    settings.pools.push_back(pool);
    if (change) change(settings);
    return settings;
  }

  class Connector final : public net::Connector {
   public:
    explicit Connector(ScriptedProxy& proxy) : proxy_(proxy) {}
    std::unique_ptr<net::Channel> connect(const net::Destination& destination) override {
      const std::size_t replica = destination.address.port() - 1u;
      if (const int error = proxy_.refuses_at_once[replica]; error != 0) {
        errno = error;
        return nullptr;
      }
      auto peer = std::make_shared<net::Peer>(proxy_.calls, false);
      proxy_.connections[replica].push_back(peer);
      proxy_.peers_.push_back({peer, &proxy_.plan[replica], 0});
      if (const auto& act = proxy_.on_connect[replica]) {
        act(*peer);
      } else {
        peer->connects();
      }
      return std::make_unique<net::ScriptedChannel>(std::move(peer));
    }

   private:
    ScriptedProxy& proxy_;
  };

  struct Acting {
    std::shared_ptr<net::Peer> peer;
    Plan* answers;  ///< A client has none.
    std::size_t answered;
  };
  /// A replica answers what it has got.
  void act(std::size_t index) {
    auto& [end, answers, answered] = peers_[index];
    if (answers == nullptr || answers->empty() || end->closed() || whole_requests(end->got) == answered) return;
    ++answered;
    const auto peer = end;
    const auto what = answers->front();
    if (answers->size() > 1) answers->erase(answers->begin());
    what(*peer);
  }

  const spdlog::level::level_enum log_level_ = spdlog::get_level();
  std::vector<Acting> peers_;
  net::UniqueFd log_file_{::memfd_create("requests", MFD_CLOEXEC)};
  const config::Settings settings_;

 public:
  // A server holds these, and shares them among its loops.
  metrics::series::Exposition exposition{2, {"test", "test"}};  ///< The second loop's shards are the shadows' thread's.
  exchange::GrantPoster grants;
  fleet::Fleet fleet{settings_, exposition, 1, &grants};
  std::shared_ptr<const fleet::Snapshot> snapshot = fleet.snapshot();
  metrics::record::RequestLog log{"/proc/self/fd/" + std::to_string(log_file_.get()), "test"};
  fleet::ModelDirectory models{fleet};
  exchange::Shared shared{exposition, fleet, log, models};
  exchange::Loop loop{shared, 0};
};

inline ScriptedProxy::Change without_budget() {
  return [](config::Settings& settings) { settings.limits.retry_budget = 0; };
}
/// Returns how many connections each replica has had.
inline std::vector<std::size_t> asked(const ScriptedProxy& proxy) {
  std::vector<std::size_t> counts;
  for (const auto& connections : proxy.connections) counts.push_back(connections.size());
  return counts;
}

// Clients send this.
inline std::string post(const std::string& body, const std::string& fields = "", const std::string& version = "1.1",
                        const std::string& path = "/v1/chat/completions") {
  return "POST " + path + " HTTP/" + version + "\r\nHost: weir\r\nContent-Type: application/json\r\n" + fields +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
inline std::string chat(bool stream) {
  return std::string(R"({"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":5,"stream":)") +
         (stream ? "true}" : "false}");
}
inline std::string health(const std::string& fields = "") {
  return "GET /health HTTP/1.1\r\nHost: weir\r\n" + fields + "\r\n";
}

/// Returns a plan's step that answers so, in pieces.
inline std::function<void(net::Peer&)> says(std::string bytes, std::size_t piece = net::Peer::any) {
  return [bytes = std::move(bytes), piece](net::Peer& peer) { peer.says(bytes, piece); };
}

/// Does something as the handler of a socket's event in a batch of the loop's poller.
class InABatch final : net::Watcher {
 public:
  InABatch(ScriptedProxy& proxy, std::function<void()> work) : work_(std::move(work)) {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    near_.reset(fds[0]);
    far_.reset(fds[1]);
    net::Poller::Registration registration(proxy.loop.poller, near_.get());
    registration.attach(*this, 0);
    proxy.loop.poller.start(proxy.loop.context);
    while (work_) proxy.loop.context.poll();
    proxy.loop.poller.stop();
  }

 private:
  void ready(std::uint32_t, std::uint32_t) override { std::exchange(work_, nullptr)(); }
  void prefetch(std::uint32_t, int) const override {}

  std::function<void()> work_;
  net::UniqueFd near_, far_;
};

}  // namespace weir::proxy::serve
