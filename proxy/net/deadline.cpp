#include "proxy/net/deadline.hpp"

namespace weir::proxy::net {

void Deadlines::tick(metrics::Moment now) {
  // What is due moves through a list of its own: whoever goes while another's deadline is handled unlinks itself.
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
    if (timed.deadline() <= now) timed.deadline_passed(now);  // another's handler may have put it off
  }
}

}  // namespace weir::proxy::net
