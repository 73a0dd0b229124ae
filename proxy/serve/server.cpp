#include "proxy/serve/server.hpp"

#include <sched.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <cstring>
#include <fstream>
#include <limits>
#include <thread>

#include "metrics/ticks.hpp"
#include "proxy/control/admin.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/fleet/engine_reader.hpp"
#include "proxy/fleet/model_directory.hpp"
#include "proxy/fleet/prober.hpp"
#include "proxy/fleet/resolver.hpp"
#include "proxy/serve/announcement.hpp"
#include "proxy/serve/drain_step.hpp"
#include "proxy/serve/listener.hpp"
#include "proxy/serve/placement.hpp"
#include "proxy/serve/session.hpp"

namespace weir::proxy::serve {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds look_every{20};
/// Loops need this long to notice that all has ended (a tick), and to write what they write then.
constexpr std::chrono::milliseconds cutting_time{500};

/// CPUs this process may use: affinity, and the cgroup's quota rounded up. At least 1.
unsigned allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  auto cpus = ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<unsigned>(CPU_COUNT(&set)) : 1U;
  std::ifstream quota_file("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (quota_file >> quota >> period && period > 0)
    cpus = std::min(cpus, static_cast<unsigned>((quota + period - 1) / period));
  return std::max(cpus, 1U);
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

/// So many descriptors serve neither a client nor its replica: listeners, loops, logs, scrapes, idle connections.
constexpr std::size_t other_descriptors = 64;

/// Takes as many descriptors as the system allows this process. Returns for how many clients they are enough, each with
/// a replica's connection. With more clients than that, none of them would reach a replica.
std::size_t clients_by_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<std::size_t>::max();
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_max > other_descriptors + 2 ? (limit.rlim_max - other_descriptors) / 2 : 1;
}

/// The server lives on the control thread, except for the loops' threads.
class Server {
 public:
  Server(const config::Settings& settings, const std::string& version);
  ~Server();
  int run();

 private:
  void place(net::UniqueFd client);
  void signalled(int signal);
  void await_signal();
  void reopen_log(int signal);
  void drain();
  void wait_for_streams(Clock::time_point until);
  void cut();
  std::string why_not_ready() const;

  const config::Settings& settings_;
  asio::io_context context_{1};
  const std::size_t most_connections_;
  const unsigned threads_;
  metrics::series::Exposition exposition_;
  fleet::Fleet fleet_;
  metrics::record::RequestLog log_;
  fleet::ModelDirectory models_{fleet_};
  exchange::Shared shared_{exposition_, fleet_, log_, models_};
  control::AdminSources admin_sources_{exposition_, fleet_, [this] { return why_not_ready(); }};
  std::vector<std::unique_ptr<exchange::Loop>> loops_;
  std::vector<std::unique_ptr<Listener>> listeners_, operator_listeners_;
  std::vector<std::thread> running_;
  asio::signal_set signals_{context_, SIGTERM, SIGINT, SIGUSR1};
  asio::steady_timer timer_{context_};
  bool accepting_ = false;
  std::string why_it_ends_;
};

Server::Server(const config::Settings& settings, const std::string& version)
    : settings_(settings),
      most_connections_(std::min(settings.limits.connections, clients_by_descriptors())),
      threads_(settings.server.threads != 0 ? settings.server.threads : allowed_cpus()),
      exposition_(threads_, metrics::series::BuildInfo{version, __VERSION__}, settings.slos),
      fleet_(settings, exposition_, std::random_device()()),
      log_(settings.log.requests, settings.log.instance.empty() ? host_name() : settings.log.instance) {
  signals_.add(SIGHUP);
  for (const auto& line : start_lines(settings, version, threads_)) spdlog::info(line);
  exposition_.log_lines_dropped = [this] { return log_.dropped(); };
  exposition_.last_successful_load = std::chrono::system_clock::now();
  for (unsigned i = 0; i < threads_; ++i) loops_.push_back(std::make_unique<exchange::Loop>(shared_, i));

  for (const auto& address : settings.server.listen)
    listeners_.push_back(std::make_unique<Listener>(context_, "server.listen", address,
                                                    [this](net::UniqueFd client, bool) { place(std::move(client)); }));
  const auto open_listener = [this](const char* key, const std::optional<config::ListenAddress>& address,
                                    control::AdminScope scope) {
    if (!address) return;
    operator_listeners_.push_back(
        std::make_unique<Listener>(context_, key, *address, [this, scope](net::UniqueFd client, bool ipv6) {
          control::start_admin_session(context_, std::move(client), ipv6, scope, admin_sources_);
        }));
  };
  open_listener("metrics.listen", settings.metrics.listen, control::AdminScope::metrics);
  open_listener("admin.listen", settings.admin.listen, control::AdminScope::admin);
}

Server::~Server() {
  for (auto& loop : loops_) loop->stop();
  for (auto& thread : running_) thread.join();
  // From here on nobody handles these two signals. If they were not ignored, they would end the process before the log
  // is written.
  sigset_t harmless;
  sigemptyset(&harmless);
  sigaddset(&harmless, SIGHUP);
  sigaddset(&harmless, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &harmless, nullptr);
  if (why_it_ends_.empty()) return;
  const auto requests = exposition_.requests();
  spdlog::info("weir ends: {}; {} requests, {} of them answered well", why_it_ends_, requests.all, requests.well);
}

std::string Server::why_not_ready() const {
  if (shared_.draining.load(std::memory_order_relaxed)) return "draining";
  if (!accepting_) return "starting";
  return fleet_.any_up() ? "" : "no replica is up";
}

/// Hands a connection to its loop.
void Server::place(net::UniqueFd client) {
  auto* const loop = place_connection(shared_, loops_, most_connections_);
  if (loop == nullptr) {
    // A shard has one writer, its loop.
    asio::post(loops_.front()->context, [&shard = loops_.front()->shard] {
      shard.limit_hits[static_cast<std::size_t>(metrics::series::Limit::connections)].add();
    });
    static constexpr std::string_view full =
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 5\r\nConnection: close\r\n\r\n";
    static_cast<void>(::send(client.get(), full.data(), full.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    return;
  }
  asio::post(loop->context, [loop, client = std::move(client)]() mutable { start_session(*loop, std::move(client)); });
}

void Server::await_signal() {
  signals_.async_wait([this](boost::system::error_code error, int signal) {
    if (!error) signalled(signal);
  });
}

std::string name_of_signal(int signal) { return "SIG" + std::string(::sigabbrev_np(signal)); }

void Server::signalled(int signal) {
  if (signal == SIGHUP || signal == SIGUSR1) {
    await_signal();
    return reopen_log(signal);
  }
  const auto name = name_of_signal(signal);
  if (shared_.draining.exchange(true)) {
    spdlog::warn("{}, the second signal: stopping at once", name);
    why_it_ends_ += ", then " + name + ": " + std::to_string(shared_.connections.load()) + " connections cut";
    return cut();
  }
  why_it_ends_ = name;
  await_signal();
  drain();
}

/// HUP is meant to reload one day. Until then it does what USR1 does.
void Server::reopen_log(int signal) {
  const auto name = name_of_signal(signal);
  if (signal == SIGHUP) spdlog::warn("SIGHUP: weir cannot reload its settings yet; restart it for changed ones");
  const auto& file = settings_.log.requests;
  if (file.empty() || file == "-") return spdlog::info("{}: no request log in a file, nothing to open anew", name);
  if (const auto problem = log_.reopen()) return spdlog::error("{}: {}", name, *problem);
  spdlog::info("{}: opened the request log '{}' anew", name, file);
}

/// Drains: weir is not ready from now on; after drain_delay it takes nothing new; then streams may finish.
void Server::drain() {
  const auto limits = fleet_.world()->settings.limits;
  spdlog::info("{}: draining {} connections; no new ones in {} s, the last are cut {} s later", why_it_ends_,
               shared_.connections.load(), limits.drain_delay.count(), limits.drain.count());
  timer_.expires_after(metrics::ticks(limits.drain_delay));
  timer_.async_wait([this, longest = metrics::ticks(limits.drain)](boost::system::error_code error) {
    if (error) return;
    accepting_ = false;
    for (auto& listener : listeners_) listener->close();
    shared_.closing.store(true);
    wait_for_streams(Clock::now() + longest);
  });
}

void Server::wait_for_streams(Clock::time_point until) {
  const auto left = shared_.connections.load();
  const bool cutting = shared_.cutting.load();
  const auto step = drain_step(left, Clock::now() >= until, cutting);
  if (left == 0 && !cutting) why_it_ends_ += ", drained";
  if (step == DrainStep::stop) return context_.stop();
  if (step == DrainStep::cut) {
    spdlog::warn("{} connections cut: limits.drain is over", left);
    why_it_ends_ += ", " + std::to_string(left) + " connections cut as limits.drain was over";
    return cut();
  }
  timer_.expires_after(look_every);
  timer_.async_wait([this, until](boost::system::error_code error) {
    if (!error) wait_for_streams(until);
  });
}

/// Ends all requests in flight, so that each is told, counted and logged; then stops.
void Server::cut() {
  for (auto& listener : listeners_) listener->close();
  shared_.cutting.store(true);
  wait_for_streams(Clock::now() + cutting_time);
}

int Server::run() {
  fleet::start_resolver(context_, fleet_);
  fleet::start_prober(context_, fleet_, std::random_device()());
  fleet::start_engine_reader(context_, fleet_, std::random_device()());
  models_.start(context_);
  for (auto& loop : loops_) running_.emplace_back([&loop = *loop] { loop.run(); });
  await_signal();
  for (auto& listener : operator_listeners_) listener->start();
  for (auto& listener : listeners_) listener->start();
  accepting_ = true;
  for (const auto& line : listening_lines(settings_)) spdlog::info(line);
  if (most_connections_ < settings_.limits.connections)
    spdlog::warn("{} connections at most, not limits.connections = {}: raise the limit of open files (ulimit -Hn)",
                 most_connections_, settings_.limits.connections);
  context_.run();
  return 0;
}

}  // namespace

int serve(const config::Settings& settings, const std::string& version) {
  for (const int signal : {SIGPIPE, SIGHUP, SIGUSR1}) ::signal(signal, SIG_IGN);
  try {
    Server server(settings, version);
    return server.run();
  } catch (const std::exception& error) {
    spdlog::critical("weir ends: {}", error.what());
    return 1;
  }
}

}  // namespace weir::proxy::serve
