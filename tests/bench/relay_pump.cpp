// bench_pump does the least that a proxy can do, one recv and one send a token; it is the floor under the relay bench's
// table.
//
// Usage: bench_pump --port P --upstream U Bytes go through as they come and are not looked at. Every client connection
// has one of its own to the replica. The program has one thread, edge-triggered epoll, and takes a whole batch of
// tokens for each wait. Bytes that a peer does not take end the program: the bench's peers take everything.
#include <array>
#include <vector>

#include "tests/bench/relay_sockets.hpp"

namespace {

using namespace weir::bench;

class Pump {
 public:
  Pump(std::uint16_t port, std::uint16_t upstream) : upstream_(upstream) {
    set_ = checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
    listener_ = listen_on_loopback(port);
    watch(set_, listener_, EPOLLIN, static_cast<std::uint64_t>(listener_));
  }

  void run() {
    std::array<epoll_event, 256> events;
    for (;;) {
      const int count = ::epoll_wait(set_, events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < count; ++i) {
        const int fd = static_cast<int>(events[static_cast<std::size_t>(i)].data.u64);
        if (fd == listener_) {
          accept_all();
        } else {
          forward(fd);
        }
      }
    }
  }

 private:
  void accept_all() {
    for (;;) {
      const int client = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (client < 0) return;
      const int replica = checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
      const auto address = loopback(upstream_);
      checked(::connect(replica, reinterpret_cast<const sockaddr*>(&address), sizeof address), "connect");
      peers_.resize(std::max<std::size_t>(peers_.size(), static_cast<std::size_t>(std::max(client, replica)) + 1), -1);
      join(client, replica);
      join(replica, client);
    }
  }

  void join(int fd, int peer) {
    no_delay(fd);
    peers_[static_cast<std::size_t>(fd)] = peer;
    watch(set_, fd, EPOLLIN | EPOLLRDHUP | EPOLLET, static_cast<std::uint64_t>(fd));
  }

  void forward(int fd) {
    int& peer = peers_[static_cast<std::size_t>(fd)];
    if (peer < 0) return;
    const auto size = ::recv(fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN) return;
    if (size > 0 && ::send(peer, buffer_.data(), static_cast<std::size_t>(size), MSG_NOSIGNAL | MSG_DONTWAIT) == size)
      return;
    if (size > 0 && errno == EAGAIN) fail("bench_pump: a peer does not take its bytes");
    ::close(fd);
    ::close(peer);
    peers_[static_cast<std::size_t>(peer)] = -1;
    peer = -1;
  }

  std::uint16_t upstream_;
  int set_, listener_;
  std::vector<int> peers_;  ///< Indexed by descriptor.
  std::array<char, 64 * 1024> buffer_;
};

}  // namespace

int main(int argc, char** argv) {
  raise_descriptor_limit();
  const auto port = static_cast<std::uint16_t>(option(argc, argv, "--port", 0));
  const auto upstream = static_cast<std::uint16_t>(option(argc, argv, "--upstream", 0));
  if (port == 0 || upstream == 0) fail("bench_pump: --port and --upstream have to be above 0");
  Pump(port, upstream).run();
}
