#include "lab/load/measure.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lab/load/connection.hpp"
#include "lab/net/sockets.hpp"
#include "lab/text.hpp"
#include "metrics/moment.hpp"
#include "metrics/wire/request/inspector.hpp"

namespace weir::lab::load {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using std::chrono::duration;

using metrics::wire::RequestFacts;

constexpr std::chrono::milliseconds tick{100};
constexpr std::chrono::milliseconds lag_every{10};

/// The salt of weir's hash of a conversation.
metrics::SipKey random_key() {
  std::random_device random;
  const auto half = [&random] { return (std::uint64_t{random()} << 32) | random(); };
  return {half(), half()};
}

/// Returns how long this thread has computed.
double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

/// Every stream needs a descriptor; the soft limit is often 1024.
void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// Returns the fields that all requests of a load have, from the request line on.
std::string head_of(const LoadSettings& settings, const Target& target) {
  std::string head = "POST " + target.prefix + std::string(path_of(settings.api)) +
                     " HTTP/1.1\r\nhost: " + target.authority +
                     "\r\ncontent-type: application/json\r\naccept: text/event-stream\r\n";
  if (!settings.api_key.empty()) head += "authorization: Bearer " + settings.api_key + "\r\n";
  for (const std::string& field : settings.headers) head += field + "\r\n";
  return head;
}

class Runner {
 public:
  Runner(const LoadSettings& settings, const Interrupt& interrupt, const OnResult& on_result)
      : settings_(settings),
        interrupt_(interrupt),
        on_result_(on_result),
        target_(target_of(settings.url)),
        head_(head_of(settings, target_)),
        workload_(settings.workload),
        arrival_(io_),
        ticker_(io_),
        lag_(io_) {
    if (target_.tls) server_.tls = net::client_context(settings.ca);
    tcp::resolver resolver(io_);
    error_code ec;
    const auto found = resolver.resolve(target_.host, target_.port, ec);
    if (ec || found.empty()) throw std::runtime_error("cannot resolve " + target_.host + ": " + ec.message());
    server_.endpoint = found.size() == 1 ? found.begin()->endpoint() : net::first_that_connects(found);
    server_.host = target_.host;
  }

  Measured run() {
    begun_ = Clock::now();
    const double computed = cpu_seconds();
    each_tick();
    measure_lag();
    if (workload_.open_loop()) {
      wait_for_arrival();
    } else {
      for (std::uint64_t i = 0; i < settings_.concurrency; ++i) {
        settings_.ramp > 0 ? send_after(static_cast<double>(i) / settings_.ramp) : send_in_turn();
      }
    }
    end_if_done();
    run_all();
    show_progress(true);
    const double lasted = metrics::seconds(Clock::now() - begun_);
    if (lasted > 0) measured_.own.cpu_share = (cpu_seconds() - computed) / lasted;
    return std::move(measured_);
  }

 private:
  /// Runs until no work is left. What is ready goes before what may wait.
  void run_all() {
    do {
      io_.restart();
      while (io_.poll() > 0 || later_.run_one()) io_.restart();
    } while (io_.run_one() > 0);
  }

  /// Returns the next request; where there is none the load ends with what runs.
  std::optional<Planned> plan() {
    std::optional<Planned> planned;
    if (may_send()) planned = workload_.next();
    if (planned) return planned;
    if (workload_.has_turns() && may_send()) {
      arrived_ = true;
    } else {
      send_no_more();
    }
    end_if_done();
    return planned;
  }

  bool may_send() const { return !all_sent_ && (settings_.requests == 0 || sent_ < settings_.requests); }

  void send_next() {
    if (const auto planned = plan()) send(*planned);
  }

  void send(const Planned& planned, std::optional<Moment> due = {}) {
    ++sent_;
    const Wanted wanted{planned.output_tokens, settings_.usage, settings_.ignore_eos};
    const std::string body = request_body(settings_.api, settings_.model, workload_.messages(planned), wanted);
    Outgoing outgoing;
    Result& result = outgoing.result;
    result.request_id = "load-" + std::to_string(settings_.workload.seed) + "-" + std::to_string(planned.number);
    result.number = planned.number;
    result.prompt_target = planned.prompt_tokens;
    result.output_target = planned.output_tokens;
    result.bytes_in = body.size();
    if (settings_.facts) result.facts = std::make_shared<RequestFacts>(facts_of(body));
    result.due = due;
    outgoing.reader = StreamReader(settings_.api);
    outgoing.bytes = head_ + "x-request-id: " + result.request_id +
                     "\r\ncontent-length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    std::shared_ptr<Connection> connection;
    if (idle_.empty()) {
      connection = std::make_shared<Connection>(io_, server_, later_);
    } else {
      connection = std::move(idle_.back());
      idle_.pop_back();
    }
    busy_.emplace(connection, in_flight_.begin(Clock::now()));
    connection->run(std::move(outgoing),
                    [this](const std::shared_ptr<Connection>& c, Result r) { ended(c, std::move(r)); });
  }

  void wait_for_arrival() {
    const auto planned = plan();
    if (!planned) return;
    arrival_.expires_at(begun_ + metrics::ticks(std::chrono::duration<double>(planned->at)));
    arrival_.async_wait([this, next = *planned](error_code ec) {
      if (ec || all_sent_) return;
      const std::optional<Moment> due = arrival_.expiry();
      send(next, due);
      wait_for_arrival();
    });
  }

  /// Sends as many requests as are to run at once.
  void send_batch(double wait) {
    for (std::uint64_t i = 0; i < settings_.concurrency; ++i) wait > 0 ? send_after(wait) : send_in_turn();
  }

  /// Sends the next request when the one before has gone out. Of many that begin together each would otherwise be
  /// connected, and not sent before the texts of all the others were made.
  void send_in_turn() {
    ++in_turn_;
    later_.put([this] {
      --in_turn_;
      send_next();
    });
  }

  /// Sends the next request after a pause.
  void send_after(double seconds) {
    const auto pause = std::make_shared<asio::steady_timer>(io_, metrics::ticks(duration<double>(seconds)));
    pauses_.insert(pause);
    pause->async_wait([this, pause](error_code) {
      pauses_.erase(pause);
      send_next();
    });
  }

  /// Sends a turn when its user has thought. After a failure it waits at least a tick.
  void send_turn(const Planned& planned, bool ok) {
    const double wait = std::max(planned.at, ok ? 0 : metrics::seconds(tick));
    const auto pause = std::make_shared<asio::steady_timer>(io_, metrics::ticks(duration<double>(wait)));
    pauses_.insert(pause);
    pause->async_wait([this, pause, planned](error_code ec) {
      pauses_.erase(pause);
      if (!ec && may_send()) {
        const std::optional<Moment> due = pause->expiry();
        send(planned, due);
      } else {
        end_if_done();
      }
    });
  }

  RequestFacts facts_of(std::string_view body) const {
    const std::string_view path = path_of(settings_.api);
    metrics::wire::RequestInspector inspector(metrics::wire::api_of("POST", path), "POST", path, &conversation_key_);
    inspector.feed(body);
    return inspector.finish();
  }

  void ended(const std::shared_ptr<Connection>& connection, Result result) {
    const auto busy = busy_.extract(connection);
    result.in_flight_at_start = busy.mapped().others;
    result.in_flight_mean = in_flight_.end(busy.mapped(), result.ended);
    if (connection->reusable()) idle_.push_back(connection);
    result.warm_up = metrics::seconds(result.begun() - begun_) < settings_.warm_up;
    if (on_result_) on_result_(result);
    if (!result.warm_up) measured_.report.add(result);
    if (!all_sent_) {
      for (const Planned& turn : workload_.turns_after(result.number)) send_turn(turn, result.ok());
    }
    if (workload_.open_loop() || all_sent_) return end_if_done();
    // After a failure it waits, so that the load does not flood a service that refuses everything.
    if (settings_.batches) {
      if (busy_.empty() && in_turn_ == 0) send_batch(result.ok() ? 0 : metrics::seconds(tick));
      return;
    }
    const double wait = std::max(settings_.think, result.ok() ? 0 : metrics::seconds(tick));
    wait > 0 ? send_after(wait) : send_next();
  }

  void send_no_more() {
    all_sent_ = true;
    arrival_.cancel();
    for (const auto& pause : pauses_) pause->cancel();
  }

  bool done() const { return (all_sent_ || arrived_) && busy_.empty() && pauses_.empty(); }

  void end_if_done() {
    if (!done()) return;
    ticker_.cancel();
    arrival_.cancel();
    lag_.cancel();
  }

  template <class Which>
  void fail_running(const char* outcome, const std::string& detail, Which which) {
    std::vector<std::shared_ptr<Connection>> running;
    for (const auto& [connection, begun] : busy_) running.push_back(connection);
    for (const auto& connection : running) {
      if (which(*connection)) connection->fail(outcome, detail);
    }
  }

  void each_tick() {
    ticker_.expires_after(tick);
    ticker_.async_wait([this](error_code ec) {
      if (ec) return;
      const Moment now = Clock::now();
      if (settings_.duration && metrics::seconds(now - begun_) >= *settings_.duration) send_no_more();
      fail_running("timeout", fmt::format("no end within {:g} s", settings_.timeout),
                   [&](const Connection& connection) {
                     return metrics::seconds(now - connection.started()) > settings_.timeout;
                   });
      if (interrupt_.seen() && !measured_.interrupted) {
        measured_.interrupted = true;
        send_no_more();
        fail_running("unfinished", "the load was ended by its user", [](const Connection&) { return true; });
      }
      show_progress(false);
      each_tick();
      end_if_done();
    });
  }

  void measure_lag() {
    lag_.expires_after(lag_every);
    lag_.async_wait([this](error_code ec) {
      if (ec || done()) return;  // A timer that has expired already cannot be cancelled.
      measured_.own.lags.push_back(duration<float>(Clock::now() - lag_.expiry()).count());
      measure_lag();
    });
  }

  void show_progress(bool last) {
    if (!terminal_) return;
    if (last) {
      std::fprintf(stderr, "\r\033[K");
      return;
    }
    if (++ticks_ % 5 != 0) return;
    const double elapsed = metrics::seconds(Clock::now() - begun_);
    std::fprintf(stderr, "\r\033[K%.0f s: %llu answered, %zu running, %llu failed, %.0f output tokens/s", elapsed,
                 static_cast<unsigned long long>(measured_.report.all.ok()), busy_.size(),
                 static_cast<unsigned long long>(measured_.report.all.failed()),
                 static_cast<double>(measured_.report.all.output_tokens()) / elapsed);
  }

  const LoadSettings& settings_;
  const Interrupt& interrupt_;
  const OnResult& on_result_;
  Target target_;
  std::string head_;  ///< The beginning of every request.
  Workload workload_;
  Measured measured_;
  asio::io_context io_{1};
  Server server_;
  asio::steady_timer arrival_;
  asio::steady_timer ticker_;
  asio::steady_timer lag_;
  std::vector<std::shared_ptr<Connection>> idle_;
  std::unordered_map<std::shared_ptr<Connection>, InFlight::Begun> busy_;
  Later later_;
  InFlight in_flight_;
  metrics::wire::ConversationKey conversation_key_{random_key()};
  std::unordered_set<std::shared_ptr<asio::steady_timer>> pauses_;
  Moment begun_{};
  std::uint64_t sent_ = 0;
  std::uint64_t in_turn_ = 0;  ///< Requests that wait for their turn to be sent.
  std::uint64_t ticks_ = 0;
  bool all_sent_ = false;
  bool arrived_ = false;  ///< All that is still to come are turns.
  bool terminal_ = ::isatty(STDERR_FILENO) == 1;
};

}  // namespace

void write_members(JsonWriter& json, const Measured& measured) {
  measured.report.write_members(json);
  write(json.key("loop_lag_s"), distribution(measured.own.lags));
  json.key("cpu_share").exact(measured.own.cpu_share);
}

std::string header_problem(std::string_view field) {
  const auto colon = field.find(':');
  const std::string_view name = field.substr(0, colon);
  constexpr std::string_view marks = "!#$%&'*+-.^_`|~";
  const auto in_name = [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || marks.find(c) != marks.npos;
  };
  if (colon == field.npos || name.empty() || !std::ranges::all_of(name, in_name)) {
    return "must be a field of a request, such as \"x-team: search\"";
  }
  const auto control = [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; };
  if (std::ranges::any_of(field, control)) return "must have no control characters";
  constexpr std::string_view own[]{"host",   "content-type", "content-length", "transfer-encoding",
                                   "accept", "x-request-id", "connection",     "expect"};
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  for (const std::string_view taken : own) {
    if (std::ranges::equal(name, taken, {}, lower)) return "is a field that the load sets itself; leave it out";
  }
  return "";
}

Measured measure(const LoadSettings& settings, const Interrupt& interrupt, const OnResult& on_result) {
  raise_file_limit();
  return Runner(settings, interrupt, on_result).run();
}

namespace {

volatile std::sig_atomic_t noted = 0;

extern "C" void note(int) { noted = 1; }

}  // namespace

Interrupt::Interrupt() {
  noted = 0;
  struct sigaction action{};
  action.sa_handler = note;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &before_int_);
  ::sigaction(SIGTERM, &action, &before_term_);
}

Interrupt::~Interrupt() {
  ::sigaction(SIGINT, &before_int_, nullptr);
  ::sigaction(SIGTERM, &before_term_, nullptr);
}

bool Interrupt::seen() const { return noted != 0; }

namespace {

constexpr double most_lag = 0.05;  // A share of what is measured.
constexpr double most_cpu = 0.8;

}  // namespace

std::optional<std::string> too_slow(const OwnSpeed& own, const Tally& measured) {
  const char* const remedy =
      "Give it a CPU of its own, or divide the load among several processes on other machines; until then these "
      "figures are partly the tool's.";
  if (measured.ok() == 0) return std::nullopt;  // There are no figures that it could have spoilt.
  if (own.cpu_share > most_cpu) {
    return fmt::format("this tool computed for {:.0f} % of the time, so it is itself what is slow. {}",
                       100 * own.cpu_share, remedy);
  }
  const auto lag = distribution(own.lags);
  if (!lag) return std::nullopt;
  const auto slow = [&](const char* name, const std::optional<Distribution>& of) -> std::optional<std::string> {
    if (!of || lag->p90 <= most_lag * of->p50) return std::nullopt;
    return fmt::format(
        "a tenth of the time this tool read answers {:.2f} ms late or more, against a median {} of "
        "{:.2f} ms. {}",
        1e3 * lag->p90, name, 1e3 * of->p50, remedy);
  };
  if (auto sentence = slow("TPOT", measured.tpot())) return sentence;
  return slow("TTFT", measured.ttft());
}

std::string own_line(const OwnSpeed& own) {
  const auto lag = distribution(own.lags);
  if (!lag) return "";
  return fmt::format("This tool  loop lag {:.2f} ms p50, {:.2f} ms p95, {:.2f} ms at most; {:.0f} % of a CPU\n",
                     1e3 * lag->p50, 1e3 * lag->p95, 1e3 * lag->max, 100 * own.cpu_share);
}

}  // namespace weir::lab::load
