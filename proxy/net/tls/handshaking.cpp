#include "proxy/net/tls/handshaking.hpp"

#include <boost/asio/post.hpp>

namespace weir::proxy::net::tls {

void Handshaking::ask(Stepper& stepper) {
  if (stepper.is_linked()) return;
  waiting_.push_back(stepper);
  post();
}

void Handshaking::post() {
  if (std::exchange(posted_, true)) return;
  boost::asio::post(context_, [this] {
    posted_ = false;
    if (waiting_.empty()) return;
    auto& next = waiting_.front();
    next.unlink();
    if (!waiting_.empty()) post();
    next.step();
  });
}

}  // namespace weir::proxy::net::tls
