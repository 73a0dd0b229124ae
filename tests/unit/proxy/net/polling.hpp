// A poller on a context of its own, and sockets to which tests write.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <deque>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/net/poller.hpp"

namespace weir::proxy::net {

struct Noting final : Watcher {
  void ready(std::uint32_t tag, std::uint32_t events) override {
    told.emplace_back(tag, events);
    if (then) then();
  }
  void prefetch(std::uint32_t, int) const override {}
  std::vector<std::pair<std::uint32_t, std::uint32_t>> told;
  std::function<void()> then;
};

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    near.reset(fds[0]);
    far.reset(fds[1]);
  }
  void says(std::string_view bytes) const {
    EXPECT_EQ(::send(far.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  UniqueFd near, far;
};

class Polling : public testing::Test {
 protected:
  Polling() { poller.start(context); }
  ~Polling() override { poller.stop(); }
  void poll() {
    while (context.poll() > 0) {
    }
  }
  Poller poller;
  boost::asio::io_context context{1};
  Noting watcher;
};

/// More than are told in one turn.
inline constexpr std::uint32_t crowd_size = 50, last_of_crowd = crowd_size - 1;

/// Registrations, each with a peer.
struct Crowd {
  explicit Crowd(Poller& poller) {
    for (std::uint32_t i = 0; i < crowd_size; ++i) registrations.emplace_back(poller, pairs[i].near.get());
  }
  void attach_all(Watcher& watcher) {
    for (std::uint32_t i = 0; i < crowd_size; ++i) registrations[i].attach(watcher, i);
  }
  void all_say() const {
    for (const auto& pair : pairs) pair.says("x");
  }
  std::array<Pair, crowd_size> pairs;
  std::deque<Poller::Registration> registrations;
};

}  // namespace weir::proxy::net
