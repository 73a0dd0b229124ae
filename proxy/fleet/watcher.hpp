// Watches every replica: probes, models, engine pages; looks the names of replicas up.
//
// Watches every replica: probes it, asks for its models, and reads its engine's own pages. On the control thread, off
// the path of requests.
//
// A probe is a GET of the path in [health], with the replica's key, on a connection of its own; or a connection alone,
// where there is no path or the replica has none such. It tries the addresses of the replica's name in turn, and all
// connections go to the one that took it from then on. The pool is told the result, and each change of a replica's
// state is logged.
//
// A reading is a few GETs one after the other, each on a connection of its own, at most 1 MiB and with a time limit:
// the metrics page every few seconds, the models every 5 s, and the pages that tell engine, version and limits at the
// start, when a replica comes back, and every 5 minutes. It publishes them as SharedReplica::engine, and tells the
// pools the limits and the model directory the models.
//
// A replica has one probe and one reading under way at most. A page that takes its time holds up no probe.
#pragma once

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "metrics/moment.hpp"
#include "proxy/fleet/fleet.hpp"
#include "proxy/fleet/model_directory.hpp"

namespace weir::proxy::fleet {

/// Until the context stops. `seed` spreads probes and readings over time.
void start_watcher(boost::asio::io_context& context, const Fleet& fleet, ModelDirectory& models, std::uint64_t seed);

// Decides when a replica's own pages are read, how long their figures are good, and when the log says that the metrics
// page fails. No clock is read.
//
// Engines have stalled under scrapes alone. So a slow engine is read less often: the pause is at least 20 times what
// the reading took. An engine that has no metrics page is asked for one every 5 minutes, and its identity, too.

class ReadingSchedule {
 public:
  using Duration = std::chrono::steady_clock::duration;
  static constexpr int pauses_by_duration = 20;
  static constexpr std::chrono::minutes rarely{5};
  static constexpr std::chrono::seconds models_every{5};

  enum class End : std::uint8_t { came, missing, failed };

  /// True if the metrics page is to be asked for.
  bool page_due(metrics::Moment now) const { return now >= page_at_; }
  /// True if the list of models is to be asked for.
  bool models_due(metrics::Moment now) const { return now >= models_at_; }
  /// True if the pages that identify the engine are to be asked for with the metrics page.
  bool identity_due(metrics::Moment now) const { return now >= identity_at_; }

  /// The engine may have been started anew: its pages are read at once.
  void came_back() {
    look_at(metrics::Moment::min());
    identity_at_ = models_at_ = metrics::Moment::min();
  }

  /// Plans a reading of the metrics page for this moment, whatever the pause. A reading that is under way does not
  /// count as this one. The list of models waits, so that it does not hold this one up.
  void look_at(metrics::Moment when) {
    page_at_ = wanted_at_ = when;
    models_at_ = std::max(models_at_, when + std::chrono::seconds(1));
  }

  /// A reading begins.
  void began() { wanted_at_ = metrics::Moment::max(); }

  /// The page was asked for, which took so long. Returns until when its figures are good: two pauses.
  metrics::Moment page_ended(End end, Duration took, Duration interval, metrics::Moment now) {
    const Duration pause = std::max(end == End::missing ? Duration(rarely) : interval, took * pauses_by_duration);
    page_at_ = std::min(now + pause, wanted_at_);
    return now + 2 * pause;
  }
  void models_ended(metrics::Moment now) { models_at_ = now + models_every; }
  void identified(metrics::Moment now) { identity_at_ = now + rarely; }

 private:
  metrics::Moment page_at_ = metrics::Moment::min(), models_at_ = page_at_, identity_at_ = page_at_;
  metrics::Moment wanted_at_ = metrics::Moment::max();  ///< A reading was wanted then, since the latest began.
};

/// Decides when the log says that a metrics page fails: while the replica is up, each reason at most once an hour. A
/// replica that is down or starts anew has no page to give, and its probe tells of it.
class PageComplaints {
 public:
  static constexpr std::chrono::hours between{1};
  static constexpr std::size_t most_reasons = 16;  ///< In an hour; further ones are not logged.

  /// Returns true if `why` is to be said now. An empty reason is never due.
  bool due(const std::string& why, bool up, metrics::Moment now) {
    if (why.empty() || !up) return false;
    std::erase_if(said_, [now](const auto& said) { return now - said.second >= between; });
    return said_.size() < most_reasons && said_.emplace(why, now).second;
  }
  void forget() { said_.clear(); }

 private:
  std::map<std::string, metrics::Moment> said_;
};

// Looks up the hosts' names in the replicas' urls on behalf of the control thread: at the start, in every new snapshot,
// so often as [discovery] says, and when a connection to such a replica fails. discovery.hpp interprets the answers.

/// Starts the resolver, which runs until the context stops. A name that is not found leaves the addresses as they were,
/// which is logged once; a replica that has none yet is down. The members of a name with `expand` go through
/// Fleet::adopt.
void start_resolver(boost::asio::io_context& context, Fleet& fleet);

}  // namespace weir::proxy::fleet
