#include "lab/load/measure.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <unordered_set>
#include <vector>

#include "lab/load/connection.hpp"
#include "lab/load/target.hpp"
#include "metrics/ticks.hpp"

namespace weir::lab::load {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using std::chrono::duration;

constexpr std::chrono::milliseconds tick{100};

/// Every stream needs a descriptor; the soft limit is often 1024.
void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

class Runner {
 public:
  Runner(const LoadSettings& settings, const Interrupt& interrupt, const OnResult& on_result)
      : settings_(settings),
        interrupt_(interrupt),
        on_result_(on_result),
        target_(target_of(settings.url)),
        workload_(settings.workload),
        arrival_(io_),
        ticker_(io_) {
    tcp::resolver resolver(io_);
    error_code ec;
    const auto found = resolver.resolve(target_.host, target_.port, ec);
    if (ec || found.empty()) throw std::runtime_error("cannot resolve " + target_.host + ": " + ec.message());
    server_ = found.begin()->endpoint();
  }

  Measured run() {
    begun_ = Clock::now();
    each_tick();
    if (workload_.open_loop()) {
      wait_for_arrival();
    } else {
      for (std::uint64_t i = 0; i < settings_.concurrency && !all_sent_; ++i) {
        settings_.ramp > 0 ? send_after(static_cast<double>(i) / settings_.ramp) : send_next();
      }
    }
    end_if_done();
    io_.run();
    show_progress(true);
    return std::move(measured_);
  }

 private:
  std::optional<Planned> plan() {
    if (all_sent_ || (settings_.requests != 0 && sent_ >= settings_.requests)) return std::nullopt;
    return workload_.next();
  }

  void send_next() {
    const auto planned = plan();
    if (!planned) {
      send_no_more();
      return end_if_done();
    }
    send(*planned);
  }

  void send(const Planned& planned) {
    ++sent_;
    Outgoing outgoing;
    outgoing.api = settings_.api;
    outgoing.prompt_target = planned.prompt_tokens;
    outgoing.request_id = "load-" + std::to_string(settings_.workload.seed) + "-" + std::to_string(planned.number);
    const std::string body =
        request_body(settings_.api, settings_.model, workload_.prompt(planned), planned.output_tokens, settings_.usage);
    outgoing.bytes =
        "POST " + target_.prefix + std::string(path_of(settings_.api)) + " HTTP/1.1\r\nhost: " + target_.authority +
        "\r\ncontent-type: application/json\r\naccept: text/event-stream\r\nx-request-id: " + outgoing.request_id +
        "\r\ncontent-length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    std::shared_ptr<Connection> connection;
    if (idle_.empty()) {
      connection = std::make_shared<Connection>(io_, server_);
    } else {
      connection = std::move(idle_.back());
      idle_.pop_back();
    }
    busy_.insert(connection);
    connection->run(std::move(outgoing),
                    [this](const std::shared_ptr<Connection>& c, const Result& r) { ended(c, r); });
  }

  void wait_for_arrival() {
    const auto planned = plan();
    if (!planned) {
      send_no_more();
      return end_if_done();
    }
    arrival_.expires_at(begun_ + metrics::ticks(std::chrono::duration<double>(planned->at)));
    arrival_.async_wait([this, next = *planned](error_code ec) {
      if (ec || all_sent_) return;
      send(next);
      wait_for_arrival();
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

  void ended(const std::shared_ptr<Connection>& connection, const Result& result) {
    busy_.erase(connection);
    if (connection->reusable()) idle_.push_back(connection);
    if (on_result_) on_result_(result);
    measured_.report.add(result);
    if (workload_.open_loop() || all_sent_) return end_if_done();
    // After a failure it waits, so that the load does not flood a service that refuses everything.
    const double wait = std::max(settings_.think, result.ok() ? 0 : duration<double>(tick).count());
    wait > 0 ? send_after(wait) : send_next();
  }

  void send_no_more() {
    all_sent_ = true;
    arrival_.cancel();
    for (const auto& pause : pauses_) pause->cancel();
  }

  void end_if_done() {
    if (!all_sent_ || !busy_.empty() || !pauses_.empty()) return;
    ticker_.cancel();
    arrival_.cancel();
  }

  template <class Which>
  void fail_running(const char* outcome, const std::string& detail, Which which) {
    const std::vector<std::shared_ptr<Connection>> running(busy_.begin(), busy_.end());
    for (const auto& connection : running) {
      if (which(*connection)) connection->fail(outcome, detail);
    }
  }

  void each_tick() {
    ticker_.expires_after(tick);
    ticker_.async_wait([this](error_code ec) {
      if (ec) return;
      const Moment now = Clock::now();
      const auto seconds_since = [now](Moment then) { return duration<double>(now - then).count(); };
      if (settings_.duration && seconds_since(begun_) >= *settings_.duration) send_no_more();
      fail_running("timeout", "no end within " + timeout_text(), [&](const Connection& connection) {
        return seconds_since(connection.started()) > settings_.timeout;
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

  std::string timeout_text() const {
    char text[32];
    std::snprintf(text, sizeof text, "%g s", settings_.timeout);
    return text;
  }

  void show_progress(bool last) {
    if (!terminal_) return;
    if (last) {
      std::fprintf(stderr, "\r\033[K");
      return;
    }
    if (++ticks_ % 5 != 0) return;
    const double elapsed = duration<double>(Clock::now() - begun_).count();
    std::fprintf(stderr, "\r\033[K%.0f s: %llu answered, %zu running, %llu failed, %.0f output tokens/s", elapsed,
                 static_cast<unsigned long long>(measured_.report.all.ok()), busy_.size(),
                 static_cast<unsigned long long>(measured_.report.all.failed()),
                 static_cast<double>(measured_.report.all.output_tokens()) / elapsed);
  }

  const LoadSettings& settings_;
  const Interrupt& interrupt_;
  const OnResult& on_result_;
  Target target_;
  Workload workload_;
  Measured measured_;
  asio::io_context io_{1};
  tcp::endpoint server_;
  asio::steady_timer arrival_;
  asio::steady_timer ticker_;
  std::vector<std::shared_ptr<Connection>> idle_;
  std::unordered_set<std::shared_ptr<Connection>> busy_;
  std::unordered_set<std::shared_ptr<asio::steady_timer>> pauses_;
  Moment begun_{};
  std::uint64_t sent_ = 0;
  std::uint64_t ticks_ = 0;
  bool all_sent_ = false;
  bool terminal_ = ::isatty(STDERR_FILENO) == 1;
};

}  // namespace

Measured measure(const LoadSettings& settings, const Interrupt& interrupt, const OnResult& on_result) {
  raise_file_limit();
  return Runner(settings, interrupt, on_result).run();
}

}  // namespace weir::lab::load
