#include "proxy/control/log_watch.hpp"

#include <system_error>

namespace weir::proxy::control {
namespace {

std::string lines(std::uint64_t count) { return std::to_string(count) + (count == 1 ? " line" : " lines"); }

}  // namespace

std::string why_lost(const LogWatch::Account& account) {
  if (account.waits_for_reader) return "its pipe has no reader";
  if (account.error != 0) return std::generic_category().message(account.error);
  return "what takes its lines does not keep up";
}

std::optional<LogWatch::Said> LogWatch::last(const Account& account, const std::string& file) const {
  if (account.dropped == told_) return std::nullopt;
  return Said{true, "the request log '" + file + "' has lost " + lines(account.dropped - told_) +
                        " at weir's end: " + why_lost(account)};
}

std::optional<LogWatch::Said> LogWatch::about_its_reader(bool waits, const std::string& file) {
  waits_ = waits;
  if (waits)
    return Said{true, "the request log '" + file +
                          "' is a pipe that nobody reads: its lines wait for a reader, and beyond " +
                          std::to_string(metrics::record::RequestLog::queue_lines) +
                          " they are lost; start what is to read it, or set log.requests to a file"};
  return Said{false, "the request log '" + file + "' waits for no reader any more"};
}

std::optional<LogWatch::Said> LogWatch::tick(const Account& account, const std::string& file, metrics::Moment now) {
  if (account.waits_for_reader != waits_) return about_its_reader(account.waits_for_reader, file);
  if (account.dropped > dropped_) {
    if (!loses_) before_ = dropped_;
    loses_ = true;
    dropped_ = account.dropped;
    written_ = account.written;
    last_loss_ = now;
  }
  if (!loses_) return std::nullopt;
  if (account.written > written_ && account.error == 0 && now - last_loss_ >= over_after) {
    loses_ = false;
    told_ = dropped_;
    return Said{false, "the request log '" + file + "' takes its lines again; " + lines(dropped_ - before_) +
                           (dropped_ - before_ == 1 ? " was lost" : " were lost")};
  }
  if (dropped_ == told_ || (said_at_ && now - *said_at_ < said_every)) return std::nullopt;
  const auto lost = dropped_ - told_;
  said_at_ = now;
  told_ = dropped_;
  return Said{true, "the request log '" + file + "' has lost " + lines(lost) + ": " + why_lost(account) +
                        "; requests are served all the same (said at most once a minute)"};
}

}  // namespace weir::proxy::control
