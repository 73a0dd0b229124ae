// The last requests that ended, as samples for comparisons. The control thread uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include "metrics/compare/samples/sample.hpp"
#include "metrics/record/finished_records.hpp"
#include "metrics/record/request_log.hpp"
#include "proxy/control/pairs.hpp"

namespace weir::proxy::control {

class History {
 public:
  /// So many samples are kept: some 20 MB.
  static constexpr std::size_t most = 50'000;

  /// Shadows' records are logged here, once they are joined with their primaries'.
  explicit History(metrics::record::RequestLog& log) : log_(log) {}

  /// Takes what a loop has finished.
  void take(metrics::record::FinishedRecords& finished, metrics::Moment now);
  /// Lets go of what has waited too long for its other half.
  void look(metrics::Moment now);

  const std::deque<metrics::compare::samples::Sample>& samples() const { return samples_; }
  const metrics::compare::samples::Names& names() const { return names_; }

  /// A shadow, as a comparison knows it: configuration, replica and name.
  using ShadowKey = std::tuple<metrics::compare::samples::Names::Name, metrics::compare::samples::Names::Name,
                               metrics::compare::samples::Names::Name>;
  /// Returns when each shadow was first sent a request, also where that is no longer among the samples.
  const std::map<ShadowKey, std::int64_t>& first_mirrored() const { return first_mirrored_; }

 private:
  void keep(const metrics::record::RequestRecord& record);
  void keep_shadows(const std::vector<metrics::record::RequestRecord>& records);

  metrics::record::RequestLog& log_;
  Pairs pairs_;
  metrics::compare::samples::Names names_;
  std::map<ShadowKey, std::int64_t> first_mirrored_;
  std::deque<metrics::compare::samples::Sample> samples_;  ///< In the order in which they ended.
};

}  // namespace weir::proxy::control
