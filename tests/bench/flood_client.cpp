// bench_flood_client floods a proxy in one of five ways, so that a bench can show whom it harms.
//
// Usage: bench_flood_client --does head|body|idle|reader|handshakes --port P [--connections 1000] [--seconds 5]
//   head        each connection sends a request's head, one byte a second, and never ends it
//   body        each connection announces a body of 16 MiB, and sends one byte of it a second
//   idle        each connection is opened, and sends nothing
//   reader      each connection asks for an answer of 100 MB (of bench_big_replica), and reads 64 KiB of it a second
//   handshakes  each connection makes a TLS handshake without resumption, closes and begins anew, as fast as it can
// A connection that the proxy closes is opened anew. The program prints one JSON object: how many connections it
// opened, how many of them the proxy refused or closed, the most that were open at once, and how many handshakes were
// made. It ends after those seconds, and has one thread.
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <memory>
#include <vector>

#include "tests/bench/relay_sockets.hpp"

namespace {

using namespace weir::bench;

constexpr std::uint64_t second = 1'000'000'000;
/// More connections would wait in the listener's backlog, and not at the proxy.
constexpr std::size_t most_opened_at_once = 200;

enum class Does { head, body, idle, reader, handshakes };

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

struct Connection {
  int fd = -1;
  std::uint64_t due = 0;  ///< When it does its next thing.
  std::size_t sent = 0;
  std::unique_ptr<SSL, FreeSsl> ssl;
};

class Flood {
 public:
  Flood(Does does, std::uint16_t port, std::size_t connections)
      : does_(does), port_(port), connections_(connections), context_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(context_, SSL_OP_NO_TICKET);
  }
  ~Flood() { SSL_CTX_free(context_); }
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;

  void run(double seconds);
  void print() const;

 private:
  void open(Connection& one, std::uint64_t now);
  void close(Connection& one);
  void due(Connection& one, std::uint64_t now);
  void ready(Connection& one, std::uint64_t now);
  void shake(Connection& one, std::uint64_t now);
  bool send(Connection& one, std::string_view text);

  const Does does_;
  const std::uint16_t port_;
  std::vector<Connection> connections_;
  SSL_CTX* const context_;
  const int set_ = checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
  std::size_t open_ = 0, most_ = 0, opened_ = 0, closed_ = 0, handshakes_ = 0, opened_now_ = 0;
  std::uint64_t read_ = 0;
};

void Flood::open(Connection& one, std::uint64_t now) {
  one.fd = checked(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket");
  no_delay(one.fd);
  if (does_ == Does::reader) {
    const int size = 64 * 1024;
    ::setsockopt(one.fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
  }
  const auto address = loopback(port_);
  if (::connect(one.fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0 && errno != EINPROGRESS) {
    ::close(one.fd);
    one.fd = -1;
    one.due = now + second;
    ++closed_;
    return;
  }
  one.sent = 0;
  one.due = now + second;
  if (does_ == Does::handshakes) {
    one.ssl.reset(SSL_new(context_));
    SSL_set_fd(one.ssl.get(), one.fd);
    SSL_set_connect_state(one.ssl.get());
  }
  watch(set_, one.fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
        static_cast<std::uint64_t>(&one - connections_.data()));
  ++opened_;
  ++opened_now_;
  most_ = std::max(most_, ++open_);
}

void Flood::close(Connection& one) {
  one.ssl.reset();
  ::close(one.fd);
  one.fd = -1;
  --open_;
}

bool Flood::send(Connection& one, std::string_view text) {
  const auto sent = ::send(one.fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) return errno == EAGAIN || errno == ENOTCONN;
  one.sent += static_cast<std::size_t>(sent);
  return true;
}

/// Does what a connection does once a second.
void Flood::due(Connection& one, std::uint64_t now) {
  static constexpr std::string_view head = "POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\n";
  static constexpr std::string_view big =
      "POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nX-Big: 1\r\nContent-Type: application/json\r\n"
      "Content-Length: 70\r\n\r\n"
      R"({"model":"big","stream":true,"messages":[{"role":"user","content":""}]})";
  static const std::string announced = std::string(head) + "Content-Length: 16777216\r\n\r\n";
  one.due = now + second;
  bool lives = true;
  switch (does_) {
    case Does::head:
      lives = send(one, one.sent == 0 ? head : "x");
      break;
    case Does::body:
      lives = send(one, one.sent == 0 ? std::string_view(announced) : " ");
      break;
    case Does::reader: {
      if (one.sent == 0) lives = send(one, big);
      std::array<char, 64 * 1024> bytes;
      const auto size = ::recv(one.fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (size > 0) read_ += static_cast<std::uint64_t>(size);
      lives = lives && size != 0;
      break;
    }
    case Does::idle:
    case Does::handshakes:
      break;
  }
  if (lives) return;
  ++closed_;
  close(one);
}

void Flood::shake(Connection& one, std::uint64_t now) {
  const int result = SSL_do_handshake(one.ssl.get());
  if (result == 1) {
    ++handshakes_;
    close(one);
    one.due = now;
    return;
  }
  const int error = SSL_get_error(one.ssl.get(), result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return;
  ERR_clear_error();
  ++closed_;
  close(one);
  one.due = now;
}

void Flood::ready(Connection& one, std::uint64_t now) {
  if (one.fd < 0) return;
  if (does_ == Does::handshakes) return shake(one, now);
  if (does_ == Does::reader) return;
  std::array<char, 4096> bytes;
  const auto size = ::recv(one.fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (size < 0 && errno == EAGAIN) {
    if (one.sent == 0 && does_ != Does::idle) due(one, now);
    return;
  }
  if (size > 0) return;
  ++closed_;
  close(one);
  one.due = now + second / 10;
}

void Flood::run(double seconds) {
  const auto end = monotonic_ns() + static_cast<std::uint64_t>(seconds * 1e9);
  std::array<epoll_event, 512> events;
  std::uint64_t looked = 0;
  for (auto now = monotonic_ns(); now < end; now = monotonic_ns()) {
    const int count =
        ::epoll_wait(set_, events.data(), static_cast<int>(events.size()), does_ == Does::handshakes ? 1 : 10);
    for (int i = 0; i < count; ++i) ready(connections_[events[static_cast<std::size_t>(i)].data.u64], now);
    if (does_ != Does::handshakes && now - looked < second / 100) continue;
    looked = now;
    opened_now_ = 0;
    for (auto& one : connections_) {
      if (now < one.due) continue;
      if (one.fd >= 0)
        due(one, now);
      else if (opened_now_ < most_opened_at_once)
        open(one, now);
    }
  }
}

void Flood::print() const {
  std::printf(R"({"opened":%zu,"closed":%zu,"most_open":%zu,"open_at_end":%zu,"handshakes":%zu,"read_mib":%.1f})"
              "\n",
              opened_, closed_, most_, open_, handshakes_, static_cast<double>(read_) / (1024 * 1024));
}

}  // namespace

int main(int argc, char** argv) {
  raise_descriptor_limit();
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to connections that the proxy has closed.
  static constexpr std::array<std::string_view, 5> names{"head", "body", "idle", "reader", "handshakes"};
  const auto* const name = std::ranges::find(names, text_option(argc, argv, "--does", ""));
  const auto port = static_cast<std::uint16_t>(option(argc, argv, "--port", 0));
  const auto connections = static_cast<std::size_t>(option(argc, argv, "--connections", 1000));
  if (name == names.end() || port == 0 || connections == 0)
    fail(
        "bench_flood_client: --does is head, body, idle, reader or handshakes; --port and --connections have to be "
        "above 0");
  Flood flood(static_cast<Does>(name - names.begin()), port, connections);
  flood.run(option(argc, argv, "--seconds", 5));
  flood.print();
}
