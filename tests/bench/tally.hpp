// Counts what many comparisons found.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "metrics/compare/comparison/comparison.hpp"

namespace weir::bench {

using metrics::compare::comparison::Comparison;
using metrics::compare::comparison::Verdict;
using metrics::compare::statistics::Finding;
using metrics::compare::statistics::Metric;

/// The results of many windows of one length.
class Tally {
 public:
  void add(const Comparison& comparison) {
    ++windows_;
    bool family = false, tails = false;
    for (const Verdict& verdict : comparison.verdicts) {
      ++findings_[{verdict.metric, verdict.finding}];
      withheld_[verdict.metric] += verdict.withheld;
      (metrics::compare::statistics::is_tail(verdict.metric) ? tails : family) |= differs(verdict.finding);
      if (!verdict.effect) continue;
      const metrics::compare::statistics::Interval interval =
          metrics::compare::statistics::interval_of(*verdict.effect);
      sum_[verdict.metric] += verdict.effect->mean;
      reach_[verdict.metric] += interval.high - verdict.effect->mean;
    }
    families_ += family;
    tails_ += tails;
    for (const metrics::compare::comparison::Note& note : comparison.notes) ++notes_[note.code];
    met_ += static_cast<double>(comparison.slo.both + comparison.slo.only_a) / static_cast<double>(comparison.pairs);
    pairs_ += static_cast<double>(comparison.pairs);
  }

  /// Counts whether the interval holds the truth.
  void check(const Comparison& comparison, Metric metric, double truth) {
    for (const Verdict& verdict : comparison.verdicts) {
      if (verdict.metric != metric || !verdict.effect) continue;
      const metrics::compare::statistics::Interval interval =
          metrics::compare::statistics::interval_of(*verdict.effect);
      covered_[metric] += interval.low <= truth && truth <= interval.high;
    }
  }

  std::size_t found(Metric metric, Finding finding) const { return value(findings_, std::pair(metric, finding)); }
  std::size_t different(Metric metric) const {
    std::size_t sum = 0;
    for (const Finding finding : {Finding::better, Finding::worse, Finding::longer, Finding::shorter})
      sum += found(metric, finding);
    return sum;
  }
  std::size_t families() const { return families_; }
  std::size_t tails() const { return tails_; }
  std::size_t windows() const { return windows_; }
  std::size_t covered(Metric metric) const { return value(covered_, metric); }
  std::size_t withheld(Metric metric) const { return value(withheld_, metric); }
  std::size_t notes(const std::string& code) const { return value(notes_, code); }
  double share(std::size_t count) const { return 100 * static_cast<double>(count) / static_cast<double>(windows_); }
  double share(Metric metric, Finding finding) const { return share(found(metric, finding)); }
  /// The mean over the windows, in %.
  double estimate(Metric metric) const {
    return 100 * metrics::compare::statistics::shown(value(sum_, metric) / static_cast<double>(windows_));
  }
  double reach(Metric metric) const { return 100 * value(reach_, metric) / static_cast<double>(windows_); }
  double met() const { return 100 * met_ / static_cast<double>(windows_); }
  double pairs() const { return pairs_ / static_cast<double>(windows_); }

 private:
  static bool differs(Finding finding) {
    return finding != Finding::equivalent && finding != Finding::not_worse && finding != Finding::inconclusive;
  }
  template <class Map>
  static typename Map::mapped_type value(const Map& map, const typename Map::key_type& key) {
    const auto found = map.find(key);
    return found == map.end() ? typename Map::mapped_type{} : found->second;
  }

  std::size_t windows_ = 0, families_ = 0, tails_ = 0;
  std::map<std::pair<Metric, Finding>, std::size_t> findings_;
  std::map<Metric, std::size_t> covered_, withheld_;
  std::map<Metric, double> sum_, reach_;
  std::map<std::string, std::size_t> notes_;
  double met_ = 0, pairs_ = 0;
};

}  // namespace weir::bench
