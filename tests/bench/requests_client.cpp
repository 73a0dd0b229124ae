// bench_requests_client sends one request again and again over keep-alive connections, each the next one as soon as its
// answer is whole, and notes how long each request took and how many others were answered meanwhile.
//
// Usage: bench_requests_client --port P --body FILE [--connections 32] [--seconds 4] [--requests N]
//   [--path /v1/chat/completions]
// With --requests it ends after so many, however long they take.
// The count of others tells whether all connections have their turns alike, whatever the load of the machine: who
// serves C connections in turn answers C - 1 others in between. The program prints one JSON object. It ends with
// status 1 if any answer is not 2xx, does not come whole, or nothing comes for 10 s. It has one thread.
#include <array>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

#include "tests/bench/relay_sockets.hpp"

namespace {

using namespace weir::bench;

struct Connection {
  int fd = -1;
  std::uint64_t sent = 0;           ///< When its request went out.
  std::size_t answered_before = 0;  ///< So many answers had come then.
  std::string answer{};             ///< The bytes of its answer so far.
};

class Client {
 public:
  Client(std::uint16_t port, std::size_t connections, std::string request)
      : request_(std::move(request)), connections_(connections) {
    const auto address = loopback(port);
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      const int fd = connections_[i].fd = checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
      no_delay(fd);
      checked(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), "connect");
      watch(set_, fd, EPOLLIN, i);
    }
  }
  ~Client() {
    for (const auto& one : connections_) ::close(one.fd);
    ::close(set_);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void run(double seconds, std::size_t requests);
  void print();

 private:
  void send(Connection& on);
  void readable(Connection& on);

  const std::string request_;
  const int set_ = checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
  std::vector<Connection> connections_;
  std::vector<std::uint64_t> times_, others_;
  std::size_t under_way_ = 0, most_ = 0;
  double lasted_s_ = 0;
  bool ending_ = false;
};

void Client::send(Connection& on) {
  on.answer.clear();
  on.answered_before = times_.size();
  on.sent = monotonic_ns();
  if (::send(on.fd, request_.data(), request_.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request_.size()))
    fail("bench_requests_client: a request was not taken whole");
  ++under_way_;
}

/// Takes an answer with Content-Length, as short answers have one.
void Client::readable(Connection& on) {
  std::array<char, 16 * 1024> bytes;
  const auto size = ::recv(on.fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) fail("bench_requests_client: a connection was closed before its answer was whole");
  on.answer.append(bytes.data(), static_cast<std::size_t>(size));
  const auto body = whole_body(on.answer);
  if (!body) return;
  if (!on.answer.starts_with("HTTP/1.1 2")) fail("bench_requests_client: an answer is not 2xx: " + on.answer);
  if (body->data() + body->size() != on.answer.data() + on.answer.size())
    fail("bench_requests_client: bytes came behind an answer");
  others_.push_back(times_.size() - on.answered_before);
  times_.push_back(monotonic_ns() - on.sent);
  --under_way_;
  if (!ending_ && times_.size() + under_way_ < most_) send(on);
}

void Client::run(double seconds, std::size_t requests) {
  constexpr double patience_s = 10;
  most_ = requests;
  const auto begun = monotonic_ns();
  for (auto& one : connections_)
    if (under_way_ < most_) send(one);
  std::array<epoll_event, 64> events;
  for (double answered_at_s = 0; under_way_ > 0;) {
    const int count = ::epoll_wait(set_, events.data(), static_cast<int>(events.size()), 1000);
    for (int i = 0; i < count; ++i) readable(connections_[events[static_cast<std::size_t>(i)].data.u64]);
    lasted_s_ = static_cast<double>(monotonic_ns() - begun) / 1e9;
    ending_ = lasted_s_ >= seconds;
    if (count > 0) answered_at_s = lasted_s_;
    if (lasted_s_ > answered_at_s + patience_s) fail("bench_requests_client: nothing came for 10 s");
  }
}

std::uint64_t quantile(const std::vector<std::uint64_t>& sorted, double q) {
  return sorted[static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1))];
}

void Client::print() {
  std::sort(times_.begin(), times_.end());
  std::sort(others_.begin(), others_.end());
  const auto us = [this](double q) { return static_cast<double>(quantile(times_, q)) / 1000; };
  std::printf(
      R"({"requests":%zu,"rate":%.0f,"p50_us":%.0f,"p99_us":%.0f,"others_p50":%zu,"others_p99":%zu,"others_max":%zu})"
      "\n",
      times_.size(), static_cast<double>(times_.size()) / lasted_s_, us(0.5), us(0.99), quantile(others_, 0.5),
      quantile(others_, 0.99), others_.back());
}

}  // namespace

int main(int argc, char** argv) {
  raise_descriptor_limit();
  const auto port = static_cast<std::uint16_t>(option(argc, argv, "--port", 0));
  const double connections = option(argc, argv, "--connections", 32), requests = option(argc, argv, "--requests", 0);
  const double seconds = requests > 0 ? 600 : option(argc, argv, "--seconds", 4);
  const std::string path = text_option(argc, argv, "--path", "/v1/chat/completions");
  std::ifstream file(text_option(argc, argv, "--body", ""), std::ios::binary);
  if (port == 0 || !file || connections < 1 || seconds <= 0)
    fail("bench_requests_client: --port and --body FILE are needed; --connections and --seconds have to be above 0");
  std::ostringstream body;
  body << file.rdbuf();
  const auto bytes = body.str();
  Client client(port, static_cast<std::size_t>(connections),
                "POST " + path + " HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: " +
                    std::to_string(bytes.size()) + "\r\n\r\n" + bytes);
  client.run(seconds, requests > 0 ? static_cast<std::size_t>(requests) : std::numeric_limits<std::size_t>::max());
  client.print();
}
