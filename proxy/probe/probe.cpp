#include "proxy/probe/probe.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "metrics/ticks.hpp"
#include "proxy/probe/report.hpp"

namespace weir::proxy::probe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_at_once = 64;
constexpr std::chrono::milliseconds progress_every{500};

struct Place {
  const config::Pool* pool;
  const config::Replica* replica;
};

std::vector<Place> places_of(const config::Settings& settings) {
  std::vector<Place> places;
  for (const auto& pool : settings.pools)
    for (const auto& replica : pool.replicas) places.push_back({&pool, &replica});
  return places;
}

/// Threads put their reports in here as they finish, and the printing one takes them in order.
class Reports {
 public:
  explicit Reports(std::size_t n) : done_(n) {}

  void put(std::size_t i, ProbeReport report) {
    const std::lock_guard lock(mutex_);
    done_[i] = std::move(report);
    changed_.notify_one();
  }

  /// Waits for the report of `i`. Meanwhile it now and then calls `waiting` with all places that are still awaited.
  template <class Waiting>
  const ProbeReport& take(std::size_t i, const Waiting& waiting) {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, progress_every, [&] { return done_[i].has_value(); })) {
      std::vector<std::size_t> open;
      for (std::size_t k = i; k < done_.size(); ++k)
        if (!done_[k]) open.push_back(k);
      waiting(open);
    }
    return *done_[i];  // Nobody writes a report again.
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<ProbeReport>> done_;
};

/// A line on a terminal that is written again and again, and cleared before anything else is written.
class Progress {
 public:
  explicit Progress(const std::vector<Place>& places) : places_(places), on_(::isatty(STDERR_FILENO) == 1) {}

  void show(const std::vector<std::size_t>& open) {
    if (!on_) return;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin_).count();
    std::string text = "waiting for " + places_[open.front()].replica->name;
    if (open.size() > 1) text += " and " + std::to_string(open.size() - 1) + " more";
    std::fprintf(stderr, "\r\x1b[K%s (%lld s)", text.c_str(), static_cast<long long>(seconds));
    shown_ = true;
  }

  void clear() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
    shown_ = false;
  }

 private:
  const std::vector<Place>& places_;
  bool on_, shown_ = false;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace

int probe(const config::Settings& settings, const ProbeOptions& options) {
  const auto places = places_of(settings);
  const auto stream_limit = metrics::ticks(options.timeout);
  Reports reports(places.size());
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < std::min(places.size(), most_at_once); ++i)
    threads.emplace_back([&] {
      for (std::size_t k = next++; k < places.size(); k = next++)
        reports.put(k, probe_replica(settings, *places[k].pool, *places[k].replica, stream_limit));
    });

  const bool colours = ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  Progress progress(places);
  std::size_t fine = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto& report = reports.take(i, [&](const auto& open) { progress.show(open); });
    progress.clear();
    const Probed probed{settings, *places[i].pool, *places[i].replica, report};
    std::fputs((options.json ? json_of(probed) + "\n" : text_of(probed, colours)).c_str(), stdout);
    std::fflush(stdout);
    fine += report.fine() ? 1 : 0;
  }
  for (auto& thread : threads) thread.join();
  if (!options.json) std::printf("%zu of %zu replicas could be measured\n", fine, places.size());
  return fine == places.size() ? 0 : 1;
}

}  // namespace weir::proxy::probe
