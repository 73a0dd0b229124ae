#include "proxy/serve/server.hpp"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <cstring>
#include <random>
#include <thread>

#include "config/address.hpp"
#include "config/keys.hpp"
#include "proxy/admin/admin.hpp"
#include "proxy/admin/api.hpp"
#include "proxy/admin/reload.hpp"
#include "proxy/admin/report.hpp"
#include "proxy/events/events.hpp"
#include "proxy/exchange/attempt_runner.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/exchange/mirror.hpp"
#include "proxy/fleet/keep_running.hpp"
#include "proxy/fleet/model_directory.hpp"
#include "proxy/fleet/watcher.hpp"
#include "proxy/rollout/rollouts.hpp"
#include "proxy/serve/client_connection.hpp"
#include "proxy/serve/listeners.hpp"
#include "proxy/serve/session.hpp"
#include "proxy/serve/shutdown.hpp"
#include "proxy/serve/start.hpp"
#include "proxy/shadows/history.hpp"
#include "proxy/shadows/live_comparison.hpp"

namespace weir::proxy::serve {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

/// The control thread looks after replicas that drain or leave so often.
constexpr std::chrono::milliseconds look_every{100};
/// Where more requests than these end between two looks, they are taken in ten parts: all of them at once would hold a
/// CPU for milliseconds, and lie in more memory than a cache has.
constexpr std::size_t many_finished = 250;
constexpr int parts = 10;
/// At its end weir gives the request log so long to take the last lines.
constexpr std::chrono::seconds last_lines_within{5};
constexpr std::array handled_signals{SIGTERM, SIGINT, SIGUSR1, SIGHUP};

std::string name_of_signal(int signal) { return "SIG" + std::string(::sigabbrev_np(signal)); }

/// The way of new clients into a loop: each becomes a session, after its handshake if there is to be one.
struct Door {
  explicit Door(exchange::Loop& loop)
      : handshakes(loop, [&loop](std::unique_ptr<net::Channel> channel,
                                 NewClient client) { start_session(loop, std::move(channel), std::move(client)); }),
        arrivals(loop.context, [this, &loop](NewClient client) {
          const auto snapshot = loop.shared.fleet.snapshot();
          if (!snapshot->server_tls) return start_session(loop, std::move(client));
          set_client_options(client);
          handshakes.begin(std::move(client), snapshot->server_tls, snapshot->settings);
        }) {}

  Handshakes handshakes;
  Arrivals arrivals;
};

/// Returns the rollouts as an earlier weir left them. Conversations keep their numbers.
rollout::KeptRollouts kept_rollouts(const config::Settings& settings) {
  auto kept = rollout::read_rollouts(settings.admin.state);
  if (!kept.conversation_key) kept.conversation_key = exchange::make_sip_key();
  return kept;
}

/// Reads settings for a reload. One that brings rollouts, or moves their state, to a directory where it cannot be kept
/// is refused: a restart would not find what a candidate has. (A start says so, and goes on: no candidate has
/// anything.)
config::LoadResult load_again(const LoadSettings& load, const BlameSettings& blame, const config::Settings& before) {
  auto loaded = load();
  const auto* const settings = std::get_if<config::Settings>(&loaded);
  if (settings == nullptr || settings->rollouts.empty()) return loaded;
  if (!before.rollouts.empty() && settings->admin.state == before.admin.state) return loaded;
  const auto why = rollout::why_not_kept(settings->admin.state);
  if (why.empty()) return loaded;
  return std::vector{blame("admin", "state", why)};
}

void warn_of_exposed(const config::Settings& settings) {
  for (const auto& line : config::exposed_secrets(settings.secret_files)) spdlog::warn("{}", line);
}

/// The server lives on the control thread, except for the loops' threads.
class Server {
 public:
  Server(const config::Settings& settings, LoadSettings load, BlameSettings blame, const std::string& version);
  ~Server();
  int run();

 private:
  void accepted(Audience audience, net::UniqueFd client);
  void place(net::UniqueFd socket);
  void turn_away(const fleet::Snapshot& snapshot, net::UniqueFd client, metrics::series::Limit limit);
  void await_signal();
  void ignore_signals();
  void signalled(int signal);
  void reopen_log(const std::string& signal);
  std::vector<std::string> take_over(const config::Settings& settings, admin::Reload::Keys keys);
  void reloaded(const admin::Reload::Result& result);
  template <class Duty>
  void do_duty(const Duty& duty);
  void look_after_replicas();
  std::size_t take_finished();
  void take_parts(int left);
  void warn_of_few_descriptors(const config::Limits& limits) const;
  std::string why_not_ready() const;
  live::Surroundings surroundings() const;
  void look_after_log(Clock::time_point now);

  asio::io_context context_{1};
  const std::size_t clients_by_descriptors_ = clients_by_descriptors();
  const unsigned threads_;
  metrics::series::Exposition exposition_;
  exchange::GrantPoster grants_;
  fleet::Fleet fleet_;
  metrics::record::RequestLog log_;
  fleet::ModelDirectory models_{fleet_};
  rollout::KeptRollouts kept_rollouts_;
  exchange::Shared shared_{.exposition = exposition_,
                           .fleet = fleet_,
                           .log = log_,
                           .models = models_,
                           .keys{.conversation{*kept_rollouts_.conversation_key}}};
  admin::Reload reload_;
  shadows::History history_{log_};
  admin::LogWatch log_watch_;
  std::vector<std::string> reload_errors_;  ///< Of the last reload, if it failed.
  shadows::SlowAnswers slow_answers_{context_};
  shadows::LiveComparison live_comparison_{history_, slow_answers_};
  rollout::Rollouts rollouts_{context_, fleet_, history_, slow_answers_, std::move(kept_rollouts_)};
  live::Live live_{
      fleet_, exposition_, threads_, [this] { return surroundings(); }, Clock::now(), std::chrono::system_clock::now()};
  admin::Recorder recorder_{live_, slow_answers_, [this](std::string_view because) {
                              return admin::report_data(live_, reload_.settings(), admin::longest_report, because);
                            }};
  admin::AdminSources admin_sources_{exposition_, fleet_,         reload_,
                                     history_,    slow_answers_,  rollouts_,
                                     live_,       shared_.bypass, [this] { return why_not_ready(); }};
  std::vector<std::unique_ptr<exchange::Loop>> loops_;
  std::unique_ptr<exchange::Shadows> shadows_;
  std::vector<std::unique_ptr<Door>> doors_;  ///< There is one for each loop.
  RejectedClients rejected_clients_{context_};
  const ServiceManager manager_;
  Listeners listeners_;
  std::vector<std::thread> running_;
  asio::signal_set signals_{context_};
  asio::steady_timer timer_{context_}, part_timer_{context_};
  std::size_t taken_in_parts_ = 0;  ///< Since the latest look.
  std::optional<Shutdown> shutdown_;
  bool accepting_ = false;
};

Server::Server(const config::Settings& settings, LoadSettings load, BlameSettings blame, const std::string& version)
    : threads_(settings.server.threads != 0 ? settings.server.threads : allowed_cpus()),
      exposition_(threads_ + 1, metrics::series::BuildInfo{version, __VERSION__}, settings.slos),
      fleet_(settings, exposition_, std::random_device()(), &grants_),
      log_(settings.log.requests, instance_of(settings.log)),
      kept_rollouts_(kept_rollouts(settings)),
      reload_(
          context_, settings,
          [this, load = std::move(load), blame = std::move(blame)] {
            return load_again(load, blame, reload_.settings());
          },
          [this](const auto& server) { return fleet_.keys_of(server); },
          [this](const auto& wanted, auto keys) { return take_over(wanted, std::move(keys)); },
          [this](auto old) { slow_answers_.free(std::move(old)); }),
      listeners_(context_, take_inherited_sockets(),
                 [this](Audience audience, net::UniqueFd client) { accepted(audience, std::move(client)); }) {
  for (const int signal : handled_signals) signals_.add(signal);
  for (const auto& line : start_lines(settings, version, threads_)) events::info(events::What::weir, "", "{}", line);
  warn_of_exposed(settings);
  exposition_.log_lines_dropped = [this] { return log_.dropped(); };
  exposition_.buffer_memory = [this] {
    return metrics::series::BufferMemory{shared_.buffers.used(), shared_.buffers.limit()};
  };
  exposition_.last_load.last_success = std::chrono::system_clock::now();
  exposition_.bypass = [this] { return shared_.bypass.load(std::memory_order_relaxed); };
  exposition_.comparisons = [this] { return live_comparison_.gauges(*fleet_.snapshot()); };
  exposition_.rollouts = [this] { return rollouts_.gauges(); };
  exposition_.findings = [this] {
    std::vector<metrics::series::Exposition::Finding> all;
    for (auto& one : live_.findings()) all.push_back({one.what, std::move(one.who)});
    return all;
  };
  history_.on_finished = [this](const auto& record, auto now) { live_.finished(record, now); };
  for (unsigned i = 0; i < threads_; ++i) {
    loops_.push_back(std::make_unique<exchange::Loop>(shared_, i));
    doors_.push_back(std::make_unique<Door>(*loops_.back()));
  }
  shadows_ = std::make_unique<exchange::Shadows>(shared_, threads_);
  shared_.shadows = shadows_.get();
  reload_.on_begin = [this] { manager_.reloading(); };
  reload_.on_result = [this](const auto& result) { reloaded(result); };
  shutdown_.emplace(context_, shared_, loops_, listeners_, manager_);
  shutdown_->on_begin = [this] {
    reload_.forbid("weir is draining, and ends then");
    rollouts_.end();
  };
}

Server::~Server() {
  for (auto& loop : loops_) loop->stop();
  for (auto& thread : running_) thread.join();
  if (shadows_) shadows_->stop();
  take_finished();
  grants_.close();
  ignore_signals();
  if (const auto lost = log_.finish(last_lines_within))
    spdlog::error(
        "the request log '{}' did not take its last lines within {} s: at most {} are lost; see what reads it",
        reload_.settings().log.requests, last_lines_within.count(), lost);
  if (const auto said = log_watch_.last(log_.account(), reload_.settings().log.requests)) spdlog::warn(said->text);
  if (!shutdown_ || !shutdown_->begun()) return;
  const auto requests = exposition_.requests();
  spdlog::info("weir ends: {}; {} requests, {} of them answered well", shutdown_->story(), requests.all, requests.well);
}

/// From here on nobody handles signals, and weir is ending anyway. With the system's handling any of them would end the
/// process before its log is written.
void Server::ignore_signals() {
  sigset_t handled;
  sigemptyset(&handled);
  for (const int signal : handled_signals) sigaddset(&handled, signal);
  pthread_sigmask(SIG_BLOCK, &handled, nullptr);  // Asio leaves the system's handling behind.
  boost::system::error_code ignored;
  signals_.clear(ignored);
  for (const int signal : handled_signals) ::signal(signal, SIG_IGN);
}

std::string Server::why_not_ready() const {
  if (shutdown_->begun()) return "draining";
  return accepting_ ? "" : "starting";
}

live::Surroundings Server::surroundings() const {
  const auto snapshot = fleet_.snapshot();
  live::Surroundings around;
  around.why_not_ready = why_not_ready();
  around.draining = shutdown_->begun();
  around.bypass = shared_.bypass.load();
  around.loaded = exposition_.last_load.last_success;
  around.last_reload_ok = exposition_.last_load.successful;
  around.reload_errors = reload_errors_;
  around.connections = shared_.connections.load();
  around.connections_limit = std::min(snapshot->settings.limits.connections, clients_by_descriptors_);
  around.buffer_bytes = shared_.buffers.used();
  around.buffer_limit_bytes = shared_.buffers.limit();
  around.log = log_.account();
  around.log_loses = log_watch_.loses();
  if (around.log_loses) around.log_why = admin::why_lost(around.log);
  around.comparisons = live_comparison_.latest(*snapshot);
  around.rollouts = rollouts_.rows();
  return around;
}

void Server::look_after_log(Clock::time_point now) {
  if (const auto said = log_watch_.tick(log_.account(), reload_.settings().log.requests, now))
    events::tell(events::What::log, "", said->warns ? events::Level::warn : events::Level::info, "{}", said->text);
}

void Server::accepted(Audience audience, net::UniqueFd client) {
  const bool of_client = audience == Audience::clients;
  const auto part = of_client ? metrics::series::Part::session : metrics::series::Part::operators;
  fleet::noting_failure(fleet_.internal_errors(), part, "the connection is closed", [&] {
    if (of_client) return place(std::move(client));
    const auto scope = audience == Audience::admin ? admin::AdminScope::admin : admin::AdminScope::metrics;
    admin::start_admin_session(context_, std::move(client), scope, admin_sources_);
  });
}

/// Hands a connection to its loop. The connections of a trusted proxy are those of many clients.
void Server::place(net::UniqueFd socket) {
  const auto snapshot = fleet_.snapshot();
  const auto& limits = snapshot->settings.limits;
  const auto address = net::peer_address(socket.get());
  const bool trusted = config::contains(snapshot->settings.server.trusted_proxies, address);
  auto of_address = shared_.addresses.connections.take(address, trusted ? 0 : limits.connections_per_address);
  if (!of_address) return turn_away(*snapshot, std::move(socket), metrics::series::Limit::connections_per_address);
  auto count = place_connection(shared_, loops_, std::min(limits.connections, clients_by_descriptors_));
  const auto* const loop = count.loop();
  if (loop == nullptr) return turn_away(*snapshot, std::move(socket), metrics::series::Limit::connections);
  doors_[loop->index]->arrivals.add({std::move(socket), address, std::move(*of_address), std::move(count)});
}

void Server::turn_away(const fleet::Snapshot& snapshot, net::UniqueFd client, metrics::series::Limit limit) {
  // A shard has one writer, its loop.
  asio::post(loops_.front()->context, [&shard = loops_.front()->shard, limit] { shard.limit_hits.add(limit); });
  using Speaks = RejectedClients::Speaks;
  rejected_clients_.add(std::move(client), snapshot.server_tls ? Speaks::tls : Speaks::http);
}

void Server::await_signal() {
  signals_.async_wait([this](boost::system::error_code error, int signal) {
    if (!error) signalled(signal);
  });
}

void Server::signalled(int signal) {
  await_signal();
  const auto name = name_of_signal(signal);
  if (signal == SIGUSR1 || signal == SIGHUP)
    return fleet::noting_failure(fleet_.internal_errors(), metrics::series::Part::control, "send the signal again",
                                 [&] { signal == SIGUSR1 ? reopen_log(name) : reload_.run_or_again(name); });
  shutdown_->signalled(name);
  shadows_->end_all();
}

void Server::reopen_log(const std::string& signal) {
  const auto& file = reload_.settings().log.requests;
  if (file.empty() || file == "-") return spdlog::info("{}: no request log in a file, nothing to open anew", signal);
  if (const auto problem = log_.reopen()) return events::error(events::What::log, "", "{}: {}", signal, *problem);
  events::info(events::What::log, "", "{}: opened the request log '{}' anew", signal, file);
}

/// Steps that can fail come first.
std::vector<std::string> Server::take_over(const config::Settings& settings, admin::Reload::Keys keys) {
  const auto before = fleet_.snapshot();
  const bool other_connections = settings.limits.connections != before->settings.limits.connections;
  try {
    auto tls = fleet_.prepare(settings);
    auto listeners = listeners_.prepare(settings);
    auto errors = adopt_with_logs(log_, reload_.settings().log, settings.log, [&] {
      fleet_.adopt(settings, std::move(tls), std::move(keys));
      fleet_.ask_for_usage_again();
      listeners_.commit(std::move(listeners));
    });
    if (!errors.empty()) return errors;
  } catch (const std::exception& error) {
    return {error.what()};
  }
  const auto now = Clock::now();
  shadows::begin_anew(*before, *fleet_.snapshot(), history_, now);
  rollouts_.adopt(now);
  warn_of_exposed(settings);
  if (other_connections) warn_of_few_descriptors(settings.limits);
  return {};
}

void Server::reloaded(const admin::Reload::Result& result) {
  const bool successful = result.kind == admin::Reload::Result::Kind::done;
  exposition_.last_load.successful = successful;
  reload_errors_ = result.errors;
  if (successful) exposition_.last_load.last_success = std::chrono::system_clock::now();
  if (shared_.bypass.load()) events::warn(events::What::bypass, "", admin::bypass_is_on);
  manager_.ready(successful ? "serving" : "serving with the settings before the reload that failed");
}

void Server::warn_of_few_descriptors(const config::Limits& limits) const {
  if (clients_by_descriptors_ >= limits.connections) return;
  spdlog::warn("{} connections at most, not limits.connections = {}: raise the limit of open files (ulimit -Hn)",
               clients_by_descriptors_, limits.connections);
}

/// Returns how many there were.
std::size_t Server::take_finished() {
  const auto now = Clock::now();
  std::size_t taken = 0;
  for (auto& loop : loops_) do_duty([&] { taken += history_.take(loop->finished, now); });
  if (shadows_) do_duty([&] { taken += history_.take(shadows_->loop().finished, now); });
  do_duty([&] { history_.tick(now); });
  return taken;
}

/// Takes what finishes until the next look, in so many parts.
void Server::take_parts(int left) {
  part_timer_.expires_after(look_every / parts);
  part_timer_.async_wait([this, left](boost::system::error_code error) {
    if (error) return;
    taken_in_parts_ += take_finished();
    if (left > 1) take_parts(left - 1);
  });
}

template <class Duty>
void Server::do_duty(const Duty& duty) {
  fleet::noting_failure(fleet_.internal_errors(), metrics::series::Part::control, "what weir saw just now is lost",
                        duty);
}

/// An exception of one duty takes no other along, and does not end weir.
void Server::look_after_replicas() {
  timer_.expires_after(look_every);
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) look_after_replicas();
  });
  const auto now = Clock::now();
  if (take_finished() + std::exchange(taken_in_parts_, 0) > many_finished) take_parts(parts - 1);
  do_duty([&] { look_after_log(now); });
  do_duty([&] { fleet_.look_after_drains(); });
  do_duty([&] {
    for (auto& keys : fleet_.take_unused_keys()) slow_answers_.free(std::move(keys));
  });
  const auto snapshot = fleet_.snapshot();
  do_duty([&] { live_comparison_.tick(*snapshot, now); });
  do_duty([&] { rollouts_.tick(now); });
  do_duty([&] { live_.tick(instance_of(reload_.settings().log), now, std::chrono::system_clock::now()); });
  do_duty([&] { recorder_.tick(snapshot->settings.admin.reports, now); });
  if (snapshot->server_tls) do_duty([&] { snapshot->server_tls->look_after_keys(now); });
}

int Server::run() {
  const auto& settings = reload_.settings();
  listeners_.commit(listeners_.prepare(settings));
  rollouts_.adopt(Clock::now());  // Before the first request.
  fleet::start_resolver(context_, fleet_);
  fleet::start_watcher(context_, fleet_, models_, std::random_device()());
  for (auto& loop : loops_) running_.emplace_back([&loop = *loop] { loop.run(); });
  shadows_->start();
  await_signal();
  look_after_replicas();
  accepting_ = true;
  for (const auto& line : listening_lines(settings)) events::info(events::What::weir, "", "{}", line);
  warn_of_few_descriptors(settings.limits);
  manager_.ready("serving");
  return shutdown_->run();
}

}  // namespace

int serve(const config::Settings& settings, LoadSettings load, BlameSettings blame, const std::string& version) {
  for (const int signal : {SIGPIPE, SIGHUP, SIGUSR1}) ::signal(signal, SIG_IGN);
  try {
    Server server(settings, std::move(load), std::move(blame), version);
    return server.run();
  } catch (const std::exception& error) {
    spdlog::critical("weir ends: {}", error.what());
    return 1;
  }
}

}  // namespace weir::proxy::serve
