#include "proxy/net/deadline.hpp"

namespace weir::proxy::net {

void Deadlines::tick(metrics::Moment now) {
  // Deadlines that are due move through a list of their own. An object that goes while another's deadline is handled
  // unlinks itself.
  List due;
  for (auto at = list_.begin(); at != list_.end();) {
    auto& timed = *at++;
    if (timed.deadline() <= now) {
      timed.unlink();
      due.push_back(timed);
    }
  }
  while (!due.empty()) {
    auto& timed = due.front();
    timed.unlink();
    list_.push_back(timed);
    if (timed.deadline() <= now) timed.deadline_passed(now);  // Another's handler may have put it off.
  }
}

}  // namespace weir::proxy::net
