// Tells the operator, in weir's own log, what becomes of the request log: that lines are lost, how many and why; that
// the file takes them again; that its pipe waits for a reader. While lines are lost it is said once a minute, so that a
// full disk does not fill another one. No clock is read here.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "metrics/moment.hpp"
#include "metrics/record/request_log.hpp"

namespace weir::proxy::control {

class LogWatch {
 public:
  static constexpr std::chrono::seconds said_every{60};
  /// Lines are no longer lost once some were written and for so long none was lost.
  static constexpr std::chrono::seconds over_after{5};

  struct Said {
    bool warns = true;
    std::string text;
  };
  using Account = metrics::record::RequestLog::Account;
  /// Returns what there is to say now. To be called often; `file` is log.requests.
  std::optional<Said> tick(const Account& account, const std::string& file, metrics::Moment now);
  /// Returns what is still to be said when weir ends, however lately the last was said.
  std::optional<Said> last(const Account& account, const std::string& file) const;
  bool loses() const { return loses_; }

 private:
  std::optional<Said> about_its_reader(bool waits, const std::string& file);

  bool loses_ = false, waits_ = false;
  std::uint64_t dropped_ = 0, told_ = 0, before_ = 0;  ///< Lost by now; of these, said; lost before it began to lose.
  std::uint64_t written_ = 0;                          ///< When the last loss was seen.
  metrics::Moment last_loss_{};
  std::optional<metrics::Moment> said_at_;
};

/// Why the file did not take the lines, in a clause.
std::string why_lost(const LogWatch::Account& account);

}  // namespace weir::proxy::control
