// A channel of each kind over a pair of the system's sockets, and its far end.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/net/channel.hpp"
#include "proxy/net/connect.hpp"
#include "tests/unit/proxy/net/loopback_listener.hpp"
#include "tests/unit/proxy/net/tls/tls_peer.hpp"

namespace weir::proxy::net {

inline constexpr std::uint32_t failed = EPOLLERR | EPOLLHUP;

enum class Kind { plain, tls_to_client, tls_to_replica };

/// A watcher that notes each event.
class NotingWatcher final : public Watcher {
 public:
  void ready(std::uint32_t, std::uint32_t events) override { told.push_back(events); }
  void prefetch(std::uint32_t, int) const override {}
  std::uint32_t all() const {
    std::uint32_t events = 0;
    for (const auto one : told) events |= one;
    return events;
  }
  std::vector<std::uint32_t> told;
};

struct ChannelEnds {
  explicit ChannelEnds(Kind which) : kind(which) { poller.start(context); }
  ~ChannelEnds() { poller.stop(); }

  /// Makes the channel, and its peer if that was not made before. The handshake has not begun.
  void begin(const config::ReplicaTls& settings = trusting(), const std::string& name = "localhost") {
    UniqueFd near;
    if (over_tcp) {
      const LoopbackListener listener;
      far = begin_connect(listener.endpoint);
      near.reset(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    } else {
      std::array<int, 2> fds{};
      const int type = (a_message_a_call ? SOCK_SEQPACKET : SOCK_STREAM) | SOCK_NONBLOCK | SOCK_CLOEXEC;
      ASSERT_EQ(::socketpair(AF_UNIX, type, 0, fds.data()), 0);
      far.reset(fds[1]);
      near.reset(fds[0]);
    }
    ASSERT_TRUE(far && near);
    if (kind == Kind::plain) {
      channel = std::make_unique<SocketChannel>(poller, clock, std::move(near));
    } else if (kind == Kind::tls_to_client) {
      if (!peer) peer.emplace(tls::TlsPeer::client(name));
      if (!server) server = std::make_shared<tls::ServerContext>(config::ServerTls{{tls::test_certificate("local")}});
      channel = tls::TlsChannel::to_client(loop, std::move(near), server);
    } else {
      if (!peer) peer.emplace(tls::TlsPeer::server("local"));
      if (!target) target = std::make_shared<tls::Target>(std::make_shared<tls::ClientContext>(settings), name);
      channel = tls::TlsChannel::to_replica(loop, std::move(near), target);
    }
    channel->watch(&watcher);
  }
  void open() {
    begin();
    run();
    if (peer) {
      ASSERT_TRUE(peer->is_open()) << peer->error;
    }
    watcher.told.clear();
  }

  static config::ReplicaTls trusting() {
    config::ReplicaTls settings;
    settings.ca = tls::test_file("ca.pem");
    return settings;
  }

  void poll() {
    while (context.poll() > 0) {
    }
  }
  /// Carries bytes both ways, in pieces of this size, until nothing moves.
  void run(std::size_t piece = std::size_t{1} << 20) {
    for (bool moved = true; moved;) {
      poll();
      moved = hear();
      std::string out = peer ? peer->take_ciphertext() : std::exchange(plain_out, "");
      moved = moved || !out.empty();
      for (std::string_view rest = out; !rest.empty();) {
        const auto sent = ::send(far.get(), rest.data(), std::min(piece, rest.size()), MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) return;
        rest.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
        poll();
      }
    }
  }
  void says(std::string_view text, std::size_t piece = std::size_t{1} << 20) {
    peer ? peer->write(text) : void(plain_out.append(text));
    run(piece);
  }
  /// Ends the far end's half as its protocol does.
  void ends() {
    if (peer) {
      peer->say_end();
      run();
    }
    ::shutdown(far.get(), SHUT_WR);
    poll();
  }
  void closes() {
    far.reset();
    poll();
  }
  std::string heard() {
    run();
    return std::exchange(peer ? peer->got : plain_got, "");
  }
  bool heard_end() {
    run();
    return peer ? peer->heard_end : plain_end;
  }
  Channel::Read read(std::size_t size) { return channel->read(std::span(buffer).first(size)); }
  std::string read_text(std::size_t size) {
    const auto got = read(size);
    return got.size < 0 ? "error" : std::string(buffer.data(), static_cast<std::size_t>(got.size));
  }
  ssize_t write(std::string_view text) { return channel->write({&text, 1}, 0); }

  const Kind kind;
  bool over_tcp = false;
  bool a_message_a_call = false;  ///< The pair keeps apart what one call wrote, and one call reads no more than that.
  Poller poller;
  boost::asio::io_context context{1};
  ArrivalClock clock{config::ReadClock::kernel};
  std::vector<std::pair<tls::Side, tls::Result>> handshakes;
  tls::Handshaking handshaking{context,
                               [this](tls::Side side, tls::Result result) { handshakes.emplace_back(side, result); }};
  const tls::TlsChannel::Loop loop{poller, clock, handshaking};
  NotingWatcher watcher;
  std::shared_ptr<const tls::ServerContext> server;
  std::shared_ptr<const tls::Target> target;
  std::optional<tls::TlsPeer> peer;
  UniqueFd far;
  std::unique_ptr<Channel> channel;
  std::array<char, 1 << 17> buffer{};

 private:
  bool hear() {
    if (!far) return false;
    bool any = false;
    std::array<char, 1 << 16> bytes;
    for (;;) {
      const auto size = ::recv(far.get(), bytes.data(), bytes.size(), 0);
      if (size == 0) plain_end = true;
      if (size <= 0) return any;
      any = true;
      const std::string_view got(bytes.data(), static_cast<std::size_t>(size));
      peer ? peer->accept(got) : void(plain_got.append(got));
    }
  }
  std::string plain_out, plain_got;
  bool plain_end = false;
};

}  // namespace weir::proxy::net
