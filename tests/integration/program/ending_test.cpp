// weir ends under thousands of streams: each has its end, its count and its line in the log, whoever is in a hurry.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <set>
#include <thread>

#include "tests/integration/peers/loopback.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"

namespace weir::integration {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t all_streams = 8000;

const sockaddr* generic(const sockaddr_in& address) { return reinterpret_cast<const sockaddr*>(&address); }

/// Answers each chat with an event and then stands still, all on one thread.
class StillReplica {
 public:
  StillReplica() {
    const auto address = loopback(port_);
    const int on = 1;
    ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(listener_, generic(address), sizeof address) != 0 || ::listen(listener_, 4096) != 0)
      throw std::runtime_error("the replica cannot listen");
    watch(listener_);
    thread_ = std::thread([this] { serve(); });
  }
  ~StillReplica() {
    ends_ = true;
    thread_.join();
    for (const int fd : connections_) ::close(fd);
    ::close(listener_);
    ::close(set_);
  }
  StillReplica(const StillReplica&) = delete;
  StillReplica& operator=(const StillReplica&) = delete;
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  void watch(int fd) const {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    ::epoll_ctl(set_, EPOLL_CTL_ADD, fd, &event);
  }
  void serve() {
    std::array<epoll_event, 256> events;
    while (!ends_) {
      const int count = ::epoll_wait(set_, events.data(), static_cast<int>(events.size()), 20);
      for (int i = 0; i < count; ++i) {
        const int fd = events[static_cast<std::size_t>(i)].data.fd;
        fd == listener_ ? accept_all() : answer(fd);
      }
    }
  }
  void accept_all() {
    for (int fd = 0; (fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
      connections_.insert(fd);
      watch(fd);
    }
  }
  void answer(int fd) {
    std::array<char, 4096> bytes;
    const auto size = ::recv(fd, bytes.data(), bytes.size(), 0);
    if (size <= 0) {
      connections_.erase(fd);
      ::close(fd);
      return;
    }
    const std::string_view asked(bytes.data(), static_cast<std::size_t>(size));
    const bool probe = asked.starts_with("GET ");
    if (!probe && !asked.starts_with("POST ")) return;  // The rest of a request that has its answer.
    const auto said = probe ? answer_to_probe_ : event_;
    static_cast<void>(::send(fd, said.data(), said.size(), MSG_NOSIGNAL));
  }

  const StreamScript script_ = vllm_chat(2);
  const std::string event_ = sse_head() + chunk(script_.events[0]) + chunk(script_.events[1]);
  const std::string answer_to_probe_ = integration::answer("200 OK", R"({"data":[{"id":"m"}]})");
  const std::uint16_t port_ = free_port();
  const int listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int set_ = ::epoll_create1(EPOLL_CLOEXEC);
  std::set<int> connections_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

/// Clients that have asked for a stream each, and read until its first event.
class StillClients {
 public:
  explicit StillClients(std::uint16_t port) {
    const auto request = post("/v1/chat/completions", chat_body());
    const auto address = loopback(port);
    for (std::size_t i = 0; i < all_streams; ++i) {
      const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      all_.push_back(fd);
      if (fd < 0 || ::connect(fd, generic(address), sizeof address) != 0 ||
          ::send(fd, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
        throw std::runtime_error("client " + std::to_string(i) + " cannot ask");
    }
    for (const int fd : all_) {
      std::string got;
      while (got.find("data: ") == got.npos) {
        const auto size = read(fd, got);
        if (size <= 0) throw std::runtime_error("a client gets no event but: " + got);
      }
    }
  }
  ~StillClients() {
    for (const int fd : all_) ::close(fd);
  }
  StillClients(const StillClients&) = delete;
  StillClients& operator=(const StillClients&) = delete;

  /// Counts those whose stream has ended with words of weir's own.
  std::size_t told() {
    std::size_t count = 0;
    for (const int fd : all_) {
      std::string got;
      while (read(fd, got) > 0) {
      }
      count += got.find("limits.drain") != got.npos ? 1 : 0;
    }
    return count;
  }

 private:
  static ssize_t read(int fd, std::string& got) {
    pollfd ready{fd, POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(std::chrono::milliseconds(patience).count())) != 1) throw TimedOut("a byte");
    std::array<char, 4096> bytes;
    const auto size = ::recv(fd, bytes.data(), bytes.size(), 0);
    if (size > 0) got.append(bytes.data(), static_cast<std::size_t>(size));
    return size;
  }
  std::vector<int> all_;
};

class ManyStreams : public testing::Test {
 protected:
  /// Both ends of every stream of the test, and in weir as many, need descriptors.
  ManyStreams() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const rlim_t wanted = 2 * all_streams + 500;
    if (limit.rlim_max < wanted)
      throw std::runtime_error("the hard limit of open files is " + std::to_string(limit.rlim_max) + ", and " +
                               std::to_string(wanted) + " are needed: ulimit -Hn");
    limit.rlim_cur = std::max(limit.rlim_cur, wanted);
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  static WeirSettings settings(const StillReplica& replica, const std::string& drain) {
    WeirSettings settings;
    settings.pools.push_back({"chat", {{"r0", replica.url()}}});
    settings.server["threads"] = "1";
    settings.limits["drain"] = drain;
    return settings;
  }
  void expect_all_counted(const WeirUnderTest& weir) const {
    const auto lines = weir.log_lines(all_streams);
    std::set<std::string> ids;
    for (const auto& line : lines) {
      ids.insert(member(line, "id"));
      EXPECT_EQ(member(line, "outcome"), "rejected");
      EXPECT_EQ(member(line, "phase"), "decode");
    }
    EXPECT_EQ(ids.size(), all_streams) << "each has one line";
    std::size_t all = 0;
    for (const char c : weir.log_text()) all += c == '\n' ? 1 : 0;
    EXPECT_EQ(all, all_streams);
    EXPECT_THAT(weir.output(), HasSubstr("; " + std::to_string(all_streams) + " requests, 0 of them answered well"));
  }

  StillReplica replica;
};

TEST_F(ManyStreams, EndWithOneTermOnceTheDrainIsOver) {
  WeirUnderTest weir(settings(replica, "0.5"));
  StillClients clients(weir.port());
  weir.process().send(SIGTERM);
  // The machine gives weir no time for a while, just as it begins to cut.
  weir.wait_until_said("connections cut: limits.drain is over");
  weir.process().send(SIGSTOP);
  weir.process().wait(std::chrono::seconds(1));
  weir.process().send(SIGCONT);
  weir.ends();
  expect_all_counted(weir);
  EXPECT_EQ(clients.told(), all_streams);
}

TEST_F(ManyStreams, EndWithTwoTermsAndWithAllThatFollow) {
  WeirUnderTest weir(settings(replica, "300"));
  StillClients clients(weir.port());
  weir.process().send(SIGTERM);
  weir.wait_until_said("draining " + std::to_string(all_streams) + " connections");
  while (!weir.process().wait(std::chrono::milliseconds(1))) weir.process().send(SIGTERM);
  weir.ends();
  expect_all_counted(weir);
  EXPECT_EQ(clients.told(), all_streams);
}

}  // namespace
}  // namespace weir::integration
