#include "lab/load/load.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <unordered_set>
#include <vector>

#include "lab/load/connection.hpp"
#include "lab/load/report.hpp"
#include "lab/load/target.hpp"
#include "metrics/ticks.hpp"

namespace weir::lab::load {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using load::Connection;
using load::Moment;
using load::Result;

constexpr std::chrono::milliseconds tick{100};

/// Writes to a file, to standard output for "-", or nowhere for "". Throws std::runtime_error if the file cannot be
/// opened.
class Sink {
 public:
  explicit Sink(const std::string& path) : to_stdout_(path == "-"), path_(path) {
    if (path.empty() || to_stdout_) return;
    file_.open(path, std::ios::trunc);
    if (!file_) throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno));
  }
  explicit operator bool() const { return to_stdout_ || file_.is_open(); }
  std::ostream& stream() { return to_stdout_ ? std::cout : file_; }
  bool flush() { return !stream().flush().fail(); }

 private:
  bool to_stdout_;
  std::string path_;
  std::ofstream file_;
};

/// Every stream needs a descriptor; the soft limit is often 1024.
void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

class Runner {
 public:
  Runner(const LoadSettings& settings, load::Report& report, Sink& log)
      : settings_(settings),
        target_(target_of(settings.url)),
        workload_(settings.workload),
        report_(report),
        log_(log),
        arrival_(io_),
        ticker_(io_),
        signals_(io_, SIGINT, SIGTERM) {
    tcp::resolver resolver(io_);
    error_code ec;
    const auto found = resolver.resolve(target_.host, target_.port, ec);
    if (ec || found.empty()) throw std::runtime_error("cannot resolve " + target_.host + ": " + ec.message());
    server_ = found.begin()->endpoint();
  }

  void run() {
    begun_ = Clock::now();
    signals_.async_wait([this](error_code ec, int) {
      if (!ec) interrupted();
    });
    each_tick();
    if (workload_.open_loop()) {
      wait_for_arrival();
    } else {
      for (std::uint64_t i = 0; i < settings_.concurrency && !all_sent_; ++i) send_next();
    }
    end_if_done();
    io_.run();
    show_progress(true);
  }

 private:
  std::optional<load::Planned> plan() {
    if (all_sent_ || (settings_.requests != 0 && sent_ >= settings_.requests)) return std::nullopt;
    return workload_.next();
  }

  void send_next() {
    const auto planned = plan();
    if (!planned) {
      all_sent_ = true;
      return end_if_done();
    }
    send(*planned);
  }

  void send(const load::Planned& planned) {
    ++sent_;
    load::Outgoing outgoing;
    outgoing.api = settings_.api;
    outgoing.prompt_target = planned.prompt_tokens;
    outgoing.request_id = "load-" + std::to_string(settings_.workload.seed) + "-" + std::to_string(planned.number);
    const std::string body = load::request_body(settings_.api, settings_.model, workload_.prompt(planned),
                                                planned.output_tokens, settings_.usage);
    outgoing.bytes =
        "POST " + target_.prefix + std::string(load::path_of(settings_.api)) +
        " HTTP/1.1\r\nhost: " + target_.authority +
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
                    [this](const std::shared_ptr<Connection>& c, Result r) { ended(c, std::move(r)); });
  }

  void wait_for_arrival() {
    const auto planned = plan();
    if (!planned) {
      all_sent_ = true;
      return end_if_done();
    }
    arrival_.expires_at(begun_ + metrics::ticks(std::chrono::duration<double>(planned->at)));
    arrival_.async_wait([this, next = *planned](error_code ec) {
      if (ec || all_sent_) return;
      send(next);
      wait_for_arrival();
    });
  }

  void ended(const std::shared_ptr<Connection>& connection, Result result) {
    busy_.erase(connection);
    if (connection->reusable()) idle_.push_back(connection);
    if (log_) log_.stream() << load::result_line(result) << '\n';
    report_.add(result);
    if (workload_.open_loop() || all_sent_) return end_if_done();
    if (result.ok()) return send_next();
    // The pause keeps the load from flooding a service that refuses everything.
    const auto pause = std::make_shared<asio::steady_timer>(io_, tick);
    ++pausing_;
    pause->async_wait([this, pause](error_code) {
      --pausing_;
      send_next();
    });
  }

  void end_if_done() {
    if (!all_sent_ || !busy_.empty() || pausing_ > 0) return;
    ticker_.cancel();
    arrival_.cancel();
    signals_.cancel();
  }

  void interrupted() {
    all_sent_ = true;
    arrival_.cancel();
    const std::vector<std::shared_ptr<Connection>> running(busy_.begin(), busy_.end());
    for (const auto& connection : running) connection->fail("unfinished", "the load was ended by its user");
    end_if_done();
  }

  void each_tick() {
    ticker_.expires_after(tick);
    ticker_.async_wait([this](error_code ec) {
      if (ec) return;
      const Moment now = Clock::now();
      if (settings_.duration && std::chrono::duration<double>(now - begun_).count() >= *settings_.duration) {
        all_sent_ = true;
        arrival_.cancel();
      }
      const std::vector<std::shared_ptr<Connection>> running(busy_.begin(), busy_.end());
      for (const auto& connection : running) {
        if (std::chrono::duration<double>(now - connection->started()).count() > settings_.timeout) {
          connection->fail("timeout", "no end within " + timeout_text());
        }
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
    const double elapsed = std::chrono::duration<double>(Clock::now() - begun_).count();
    std::fprintf(stderr, "\r\033[K%.0f s: %llu answered, %zu running, %llu failed, %.0f output tokens/s", elapsed,
                 static_cast<unsigned long long>(report_.all.ok()), busy_.size(),
                 static_cast<unsigned long long>(report_.all.failed()),
                 static_cast<double>(report_.all.output_tokens()) / elapsed);
  }

  const LoadSettings& settings_;
  Target target_;
  load::Workload workload_;
  load::Report& report_;
  Sink& log_;
  asio::io_context io_{1};
  tcp::endpoint server_;
  asio::steady_timer arrival_;
  asio::steady_timer ticker_;
  asio::signal_set signals_;
  std::vector<std::shared_ptr<Connection>> idle_;
  std::unordered_set<std::shared_ptr<Connection>> busy_;
  Moment begun_{};
  std::uint64_t sent_ = 0;
  std::uint64_t pausing_ = 0;
  std::uint64_t ticks_ = 0;
  bool all_sent_ = false;
  bool terminal_ = ::isatty(STDERR_FILENO) == 1;
};

}  // namespace

int run_load(const LoadSettings& settings) {
  try {
    raise_file_limit();
    Sink json(settings.json), log(settings.log);
    load::Report report;
    Runner runner(settings, report, log);
    runner.run();
    if (json) json.stream() << boost::json::serialize(report.json()) << '\n';
    if (settings.json != "-" && settings.log != "-") report.all.print(std::cout, report.all.elapsed());
    const bool written = json.flush() && log.flush() && std::cout.flush();
    if (!written) std::cerr << "weir-lab load: a report or log could not be written whole; is the disk full?\n";
    return written && (report.all.ok() > 0 || report.all.failed() == 0) ? 0 : 1;
  } catch (const std::invalid_argument& e) {
    std::cerr << "weir-lab load: " << e.what() << "\n";
    return 2;
  } catch (const std::exception& e) {
    std::cerr << "weir-lab load: " << e.what() << "\n";
    return 1;
  }
}

}  // namespace weir::lab::load
