// Watches a client from its request's last byte to the end of its exchange, wherever the request is meanwhile: whether
// it has gone, what it sends already of a following request (pipelining), and when it takes bytes again.
#pragma once

#include <cstdint>
#include <string>

#include "proxy/net/channel.hpp"

namespace weir::proxy::exchange {

class ClientWatch final : net::Watcher {
 public:
  /// Bytes of a following request that are read while an answer is under way.
  static constexpr std::size_t most_unread = 4 * 1024;

  /// Who wants to know, while it is at work for the client.
  class Listener {
   public:
    virtual void client_gone() = 0;
    virtual void client_writable() = 0;

   protected:
    ~Listener() = default;
  };

  /// `unread` takes the bytes of following requests. Both outlive the watch.
  ClientWatch(net::Channel& channel, std::string& unread);
  ~ClientWatch() { channel_.detach(); }
  ClientWatch(const ClientWatch&) = delete;
  ClientWatch& operator=(const ClientWatch&) = delete;

  net::Channel& channel() { return channel_; }
  bool gone() const { return gone_; }
  /// The listener is told from now on; null: nobody is. One that listens late asks gone() first.
  void listen(Listener* listener) { listener_ = listener; }

 private:
  void ready(std::uint32_t tag, std::uint32_t events) override;

  net::Channel& channel_;
  std::string& unread_;
  Listener* listener_ = nullptr;
  bool gone_;
};

}  // namespace weir::proxy::exchange
