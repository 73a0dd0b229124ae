// Decides when the log says that an engine's metrics page fails: while the replica is up, each reason at most once an
// hour.
//
// A replica that is down or starts anew has no page to give, and the prober tells of it. Nothing here reads a clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>

namespace weir::proxy::fleet {

class PageComplaints {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::hours between{1};
  static constexpr std::size_t most_reasons = 16;  ///< In an hour; further ones are not logged.

  /// Returns true if `why` is to be said now. An empty reason is never due.
  bool due(const std::string& why, bool up, Moment now) {
    if (why.empty() || !up) return false;
    std::erase_if(said_, [now](const auto& said) { return now - said.second >= between; });
    return said_.size() < most_reasons && said_.emplace(why, now).second;
  }
  void forget() { said_.clear(); }

 private:
  std::map<std::string, Moment> said_;
};

}  // namespace weir::proxy::fleet
