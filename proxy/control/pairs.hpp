// Joins the records of mirrored requests with those of their primaries, and says what the two answers have in common.
// A plain table without a clock, for the control thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>
#include <vector>

#include "metrics/moment.hpp"
#include "metrics/record/request_record.hpp"

namespace weir::proxy::control {

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

}  // namespace weir::proxy::control
