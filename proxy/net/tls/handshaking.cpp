#include "proxy/net/tls/handshaking.hpp"

#include <boost/asio/post.hpp>

namespace weir::proxy::net::tls {

void Handshaking::ask(Stepper& stepper, Side side) {
  if (stepper.is_linked()) return;
  (side == Side::replica ? replicas_ : clients_).push_back(stepper);
  post();
}

void Handshaking::post() {
  if (std::exchange(posted_, true)) return;
  boost::asio::post(context_, [this] { take_turn(); });
}

void Handshaking::take_turn() {
  posted_ = false;
  auto& waiting = replicas_.empty() ? clients_ : replicas_;
  if (waiting.empty()) return;
  auto& next = waiting.front();
  next.unlink();
  if (!replicas_.empty() || !clients_.empty()) post();
  next.step();
}

}  // namespace weir::proxy::net::tls
