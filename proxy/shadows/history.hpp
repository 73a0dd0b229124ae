// The last requests that ended, as samples for comparisons. The control thread uses it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "metrics/compare/pairs/pairing.hpp"
#include "metrics/compare/samples/sample.hpp"
#include "metrics/compare/table/table.hpp"
#include "metrics/moment.hpp"
#include "metrics/record/request_log.hpp"
#include "metrics/record/request_record.hpp"

namespace weir::proxy::shadows {

class Pairs {
 public:
  /// So many requests wait here at most for their other half, and so long.
  static constexpr std::size_t most = 10'000;
  static constexpr std::chrono::minutes longest{10};

  /// Takes a primary's record that has shadows. Returns the records of those that came before it, joined.
  std::vector<metrics::record::RequestRecord> primary(const metrics::record::RequestRecord& record,
                                                      metrics::Moment now);
  /// Takes a shadow's record. Returns it joined if its primary is there, and nothing if it has to wait.
  std::vector<metrics::record::RequestRecord> shadow(metrics::record::RequestRecord record, metrics::Moment now);
  /// Returns the shadows that have waited too long, or that had to make room: they have no primary to compare with.
  std::vector<metrics::record::RequestRecord> take_missing(metrics::Moment now);
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    metrics::Moment since{};
    bool has_primary = false;
    metrics::record::Answer answer{};  ///< The primary's.
    std::uint32_t shadows = 0;         ///< So many are still to come.
    std::vector<metrics::record::RequestRecord> waiting;
    std::list<std::string>::iterator place;  ///< In order_.
  };
  using Entries = std::unordered_map<std::string, Entry>;

  Entry& entry(const std::string& id, metrics::Moment now);
  void drop(Entries::iterator entry);

  Entries entries_;               ///< By the primary's id.
  std::list<std::string> order_;  ///< The oldest is in front.
  std::vector<metrics::record::RequestRecord> missing_;
};

class History {
 public:
  /// So many samples are kept: some 20 MB.
  static constexpr std::size_t usual_most = 50'000;

  /// Shadows' records are logged here, once they are joined with their primaries'.
  /// `wall` is the wall clock at `moment`. Samples have their times by these two: a step of the wall clock would put
  /// later requests before earlier ones, or let a shadow get warm at once.
  explicit History(metrics::record::RequestLog& log, std::size_t most = usual_most,
                   std::chrono::system_clock::time_point wall = std::chrono::system_clock::now(),
                   metrics::Moment moment = std::chrono::steady_clock::now())
      : log_(log),
        most_(most),
        wall_ahead_(std::chrono::duration_cast<std::chrono::microseconds>(wall.time_since_epoch() -
                                                                          moment.time_since_epoch())) {}

  /// Called with each record that is taken, of a client or a shadow. May be empty.
  std::function<void(const metrics::record::RequestRecord&, metrics::Moment now)> on_finished;

  /// Takes what a loop has finished. Returns how many there were.
  std::size_t take(metrics::record::FinishedRecords& finished, metrics::Moment now);
  /// Lets go of what has waited too long for its other half.
  void tick(metrics::Moment now);

  const std::deque<metrics::compare::samples::Sample>& samples() const { return samples_; }
  /// Returns the samples that came since then. They stay where they are until the next take() or tick().
  std::vector<const metrics::compare::samples::Sample*> samples_since(metrics::Moment moment) const;
  const metrics::compare::samples::Names& names() const { return names_; }

  /// Returns the wall clock of a moment as the samples have it, in microseconds since 1970.
  std::int64_t wall_us(metrics::Moment moment) const {
    return std::chrono::duration_cast<std::chrono::microseconds>(moment.time_since_epoch() + wall_ahead_).count();
  }

  /// Returns what shadows were sent, also where that is no longer among the samples.
  const metrics::compare::pairs::Mirrored& mirrored() const { return mirrored_; }
  /// True if a comparison is to have the sample: a shadow that is switched on begins anew.
  bool counts(const metrics::compare::samples::Sample& sample) const { return !mirrored_.is_outdated(sample); }
  /// Returns what is kept of running comparisons whose first samples are gone, one for each two sides.
  const std::vector<std::shared_ptr<const metrics::compare::table::Table>>& tables() const { return tables_; }
  /// Returns the moment before which pairs are to leave to a table, since 1970: it is that of the samples which the
  /// next eighth of those that are kept will push out. Returns nothing as long as there is room for that eighth.
  std::optional<std::int64_t> leaving_before_us() const;
  /// Takes the tables of all comparisons that go on, made of what there was when times_begun_anew() was `times`. If a
  /// shadow began anew since, nothing is taken.
  void keep_tables(std::vector<std::shared_ptr<const metrics::compare::table::Table>> tables, std::uint64_t times);
  /// Returns how many requests of each shadow are in no table although they are gone, or will be: they left in a burst
  /// before keep_tables() had them, or ended after the others of their time had left. Counts from begin_anew() on.
  const std::map<metrics::compare::samples::Names::Name, std::uint64_t>& lost() const { return lost_; }
  std::uint64_t times_begun_anew() const { return times_begun_anew_; }
  /// The shadow was switched on: what it was sent before does not warm it, and its comparisons begin anew.
  void begin_anew(std::string_view shadow, metrics::Moment now);

 private:
  void take(metrics::record::RequestRecord& record, metrics::Moment now);
  void keep(const metrics::record::RequestRecord& record, metrics::Moment now);
  /// True if a table of the sample's shadow has the pairs of its time.
  bool is_in_table(const metrics::compare::samples::Sample& sample) const;
  void keep_shadows(const std::vector<metrics::record::RequestRecord>& records, metrics::Moment now);

  metrics::record::RequestLog& log_;
  const std::size_t most_;
  Pairs pairs_;
  const std::chrono::microseconds wall_ahead_;  ///< Of the steady clock.
  metrics::compare::samples::Names names_;
  metrics::compare::pairs::Mirrored mirrored_;
  std::vector<std::shared_ptr<const metrics::compare::table::Table>> tables_;
  std::map<metrics::compare::samples::Names::Name, std::uint64_t> lost_;
  std::uint64_t times_begun_anew_ = 0;
  std::deque<metrics::compare::samples::Sample> samples_;  ///< In the order in which they ended.
  std::deque<metrics::Moment> came_;                       ///< When each of them came.
  std::vector<metrics::record::RequestRecord> taken_;      ///< What take() took last.
};

}  // namespace weir::proxy::shadows
