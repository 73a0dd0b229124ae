// Watches a client from its request's last byte to the end of its exchange, wherever the request is: whether the client
// has gone, what it already sends of a following request (pipelining), and when it takes bytes again.
#pragma once

#include <cstdint>
#include <string>

#include "config/settings.hpp"
#include "proxy/net/channel.hpp"

namespace weir::proxy::exchange {

class ClientWatch final : net::Watcher {
 public:
  /// So many bytes of a following request are read while an answer is sent.
  static constexpr std::size_t most_unread = 4 * 1024;

  /// A listener wants to know while it works for the client.
  class Listener {
   public:
    virtual void client_gone() = 0;
    virtual void client_writable() = 0;

   protected:
    ~Listener() = default;
  };

  /// `unread` takes the bytes of following requests; it and the channel outlive the watch. `half_close` says whether a
  /// client that ends its direction has left.
  ClientWatch(net::Channel& channel, std::string& unread, config::HalfClose half_close = config::HalfClose::abort);
  ~ClientWatch() { channel_.detach(); }
  ClientWatch(const ClientWatch&) = delete;
  ClientWatch& operator=(const ClientWatch&) = delete;

  net::Channel& channel() { return channel_; }
  bool gone() const { return gone_; }
  /// Tells the listener from now on; null means nobody. A listener that starts late asks gone() first.
  void listen(Listener* listener) { listener_ = listener; }

 private:
  void ready(std::uint32_t tag, std::uint32_t events) override;
  void look_at(std::uint32_t events);
  void leave();
  void prefetch(std::uint32_t, int) const override {}

  net::Channel& channel_;
  std::string& unread_;
  Listener* listener_ = nullptr;
  const bool fin_is_leaving_;
  bool gone_;
};

}  // namespace weir::proxy::exchange
