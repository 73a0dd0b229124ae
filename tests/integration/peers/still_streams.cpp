#include "tests/integration/peers/still_streams.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string_view>

#include "tests/integration/peers/streams.hpp"

namespace weir::integration {
namespace {

std::string head_and_event() {
  const auto script = vllm_chat(2);
  return sse_head() + chunk(script.events[0]) + chunk(script.events[1]);
}

}  // namespace

StillReplica::StillReplica()
    : event_(head_and_event()),
      answer_to_probe_(integration::answer("200 OK", R"({"data":[{"id":"m"}]})")),
      listener_(Socket::listen(-1, free_port(), 1, 4096)),
      set_(::epoll_create1(EPOLL_CLOEXEC)) {
  ::fcntl(listener_.fd(), F_SETFL, O_NONBLOCK);
  watch(listener_.fd());
  thread_ = std::thread([this] { serve(); });
}

StillReplica::~StillReplica() {
  ends_ = true;
  thread_.join();
  for (const int fd : connections_) ::close(fd);
  ::close(set_);
}

void StillReplica::watch(int fd) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  ::epoll_ctl(set_, EPOLL_CTL_ADD, fd, &event);
}

void StillReplica::serve() {
  std::array<epoll_event, 256> events;
  while (!ends_) {
    const int count = ::epoll_wait(set_, events.data(), static_cast<int>(events.size()), 20);
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      fd == listener_.fd() ? accept_all() : answer(fd);
    }
  }
}

void StillReplica::accept_all() {
  for (int fd = 0; (fd = ::accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
    connections_.insert(fd);
    watch(fd);
  }
}

void StillReplica::answer(int fd) {
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
  const auto& said = probe ? answer_to_probe_ : event_;
  static_cast<void>(::send(fd, said.data(), said.size(), MSG_NOSIGNAL));
}

StillClients::StillClients(std::uint16_t port, std::size_t clients, std::string_view request) {
  for (std::size_t i = 0; i < clients; ++i) {
    all_.push_back(Socket::connect(port));
    all_.back().send(request);
  }
  std::array<char, 4096> bytes;
  for (auto& client : all_) {
    std::string got;
    while (got.find("data: ") == got.npos) {
      const auto size = client.receive(bytes.data(), bytes.size());
      got.append(bytes.data(), size);
      if (size == 0 || !got.starts_with("HTTP/1.1 200")) throw std::runtime_error("a client gets no event but: " + got);
    }
  }
}

std::size_t StillClients::told(std::string_view words) {
  std::array<char, 4096> bytes;
  std::size_t count = 0;
  for (auto& client : all_) {
    std::string got;
    try {
      while (const auto size = client.receive(bytes.data(), bytes.size())) got.append(bytes.data(), size);
    } catch (const PeerGone&) {  // Bytes that came before count.
    }
    count += got.find(words) != got.npos ? 1 : 0;
  }
  return count;
}

}  // namespace weir::integration
