// Hands the records of finished requests from the loop that wrote them to the control thread.
#pragma once

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "metrics/record/request_record.hpp"

namespace weir::metrics::record {

/// A queue with one writer and one reader. A record costs a move under a mutex that nobody holds for longer.
class FinishedRecords {
 public:
  /// The most records that wait, some 60 MB and what they point to: the reader comes several times a second.
  static constexpr std::size_t most = 65'536;
  /// Memory for so many records is kept at most.
  static constexpr std::size_t most_kept = most / 8;

  /// Returns false if too many wait; the record is dropped then.
  bool put(RequestRecord&& record) {
    const std::lock_guard lock(mutex_);
    if (records_.size() >= most) return false;
    records_.push_back(std::move(record));
    return true;
  }
  /// Returns all records since the last call, in order. The next ones get the memory of `used`, unless that is much.
  std::vector<RequestRecord> take(std::vector<RequestRecord> used = {}) {
    used.clear();
    if (used.capacity() > most_kept) std::vector<RequestRecord>().swap(used);
    const std::lock_guard lock(mutex_);
    used.swap(records_);
    return used;
  }

 private:
  std::mutex mutex_;
  std::vector<RequestRecord> records_;
};

}  // namespace weir::metrics::record
