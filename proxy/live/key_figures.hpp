// The figures of clients' keys: the requests of each, and how long they waited. The control thread uses it.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "metrics/record/request_record.hpp"
#include "proxy/keys/client_keys.hpp"
#include "proxy/live/counts.hpp"
#include "proxy/live/memories.hpp"
#include "proxy/live/now.hpp"

namespace weir::proxy::live {

class KeyFigures {
 public:
  /// So many keys have a row, and so many have their requests counted at a time.
  static constexpr std::size_t most_keys = 50, most_counted_keys = 1000;

  /// Counts a finished request of a client.
  void finished(const metrics::record::RequestRecord& record);
  /// Ends the second that ends now, after `seconds`. While some wait, or have waited, the keys have their rows at once;
  /// else list() adds them for who looks. `now` has its pools; `keys` is null where clients have none.
  void take(Now& now, const keys::ClientKeys* keys, std::size_t seconds);
  /// Sets the rows of the keys that have requests, those that wait first. Costs O(keys).
  void list(Now& now, const keys::ClientKeys& keys) const;

 private:
  struct OfKey {
    RequestCounts requests;
    Minute tokens_in, tokens_out;
    bool is_quiet() const { return requests.all.empty(); }
  };
  struct OfWaits {
    Growth waits, waited;
    Minute ended, seconds;
    bool seen = false;
  };

  void take_waits(const keys::ClientKeys& keys, std::size_t seconds);
  std::vector<KeyNow> rows_of(const keys::ClientKeys& keys) const;

  std::map<std::string, OfKey, std::less<>> memories_;
  std::map<std::string, OfWaits, std::less<>> waits_;  ///< By key, for keys of which some wait or waited.
};

}  // namespace weir::proxy::live
