#include "proxy/net/completion.hpp"

namespace weir::proxy::net {

bool Deadlines::tick(metrics::Moment now) {
  if (!left_.empty()) return false;
  left_.swap(all_);
  return go_on(now);
}

bool Deadlines::go_on(metrics::Moment now) {
  for (std::size_t handled = 0, looked_at = 0;
       handled < handled_at_once && looked_at < looked_at_at_once && !left_.empty(); ++looked_at) {
    // An object that goes while a deadline is handled, its own or another's, unlinks itself.
    auto& timed = left_.front();
    timed.unlink();
    all_.push_back(timed);
    if (timed.deadline() > now) continue;
    ++handled;
    timed.deadline_passed(now);
  }
  return !left_.empty();
}

}  // namespace weir::proxy::net
