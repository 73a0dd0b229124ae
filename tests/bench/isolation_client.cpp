// bench_isolation_client sends short requests at a steady rate, and notes how long each request and each token took.
//
// Usage: bench_isolation_client --port P [--rate 100] [--seconds 5] [--tokens 25] [--rest 0.0005] [--tls 0]
// The port leads to a bench_upstream, which answers the head at once and stamps each token. A request's delay is from
// its send, or with TLS from the beginning of its handshake, to the first bytes of its answer; a token's is from the
// replica's send. Both end with the kernel's receive stamp here. Requests of the first half second do not count. The
// program prints one JSON object. It counts answers that did not come whole as broken, and ends by itself 30 s after
// its last request. It has one thread, and rests between looks at its sockets for the reason that bench_client does.
#include <fcntl.h>

#include <array>
#include <vector>

#include "tests/bench/relay_sockets.hpp"
#include "tests/bench/stamped_stream.hpp"
#include "tests/bench/tls_reader.hpp"

namespace {

using namespace weir::bench;

constexpr double warm_up_s = 0.5;

struct Request {
  int fd = -1;
  std::uint64_t sent = 0;
  bool counts = false, answered = false;
  std::unique_ptr<TlsReader> tls;
  StampedStream reader;
};

class Client {
 public:
  Client(std::uint16_t port, std::uint64_t tokens, bool tls) : port_(port), tokens_(tokens), tls_(tls) {}

  void run(double rate, double seconds, double rest);
  void print();

 private:
  void open(Request& of, bool counts);
  void readable(Request& of);
  void close(Request& of);

  const std::uint16_t port_;
  const std::uint64_t tokens_;
  const bool tls_;
  const int set_ = checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
  std::vector<Request> requests_;
  std::vector<std::uint64_t> token_delays_, request_delays_;
  std::size_t open_ = 0, broken_ = 0;
};

void Client::open(Request& of, bool counts) {
  of.counts = counts;
  of.fd = stamped_connection(port_);
  const auto request = chat_request(tokens_);
  of.sent = monotonic_ns();
  if (tls_) {
    // A handshake that waited here would let the tokens of others gather, and the stamp of the last is that of all.
    checked(::fcntl(of.fd, F_SETFL, O_NONBLOCK), "fcntl");
    of.tls = std::make_unique<TlsReader>(of.fd, request);
    of.tls->begin();
  } else {
    send_whole(of.fd, request);
  }
  ++open_;
  watch(set_, of.fd, EPOLLIN, static_cast<std::uint64_t>(&of - requests_.data()));
}

void Client::close(Request& of) {
  if (!of.reader.whole() || !of.reader.accepted() || of.reader.tokens() != tokens_) ++broken_;
  of.tls.reset();
  ::close(of.fd);
  --open_;
}

void Client::readable(Request& of) {
  if (of.tls && !of.tls->begin()) return;
  std::array<char, 16 * 1024> bytes;
  std::uint64_t now = 0;
  const auto size = read_stamped(of.fd, bytes, now);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) return close(of);
  const auto note = [&](std::uint64_t stamp) {
    if (of.counts) token_delays_.push_back(now > stamp ? now - stamp : 0);
  };
  const auto take = [&](std::string_view plain) {
    if (of.counts && !of.answered) request_delays_.push_back(now > of.sent ? now - of.sent : 0);
    of.answered = true;
    of.reader.read(plain, note);
  };
  const std::string_view read(bytes.data(), static_cast<std::size_t>(size));
  if (of.tls)
    of.tls->arrived(read, take);
  else
    take(read);
  if (of.reader.whole()) close(of);
}

void Client::run(double rate, double seconds, double rest) {
  requests_.resize(static_cast<std::size_t>(rate * (seconds + warm_up_s)));
  const auto begun = monotonic_ns();
  const auto limit = begun + static_cast<std::uint64_t>((seconds + 30) * 1e9);
  for (std::size_t next = 0; next < requests_.size() || open_ > 0;) {
    const auto passed = static_cast<double>(monotonic_ns() - begun) / 1e9;
    for (; next < requests_.size() && static_cast<double>(next) / rate <= passed; ++next)
      open(requests_[next], static_cast<double>(next) / rate >= warm_up_s);
    read_ready(
        set_, [&](std::uint64_t at) { readable(requests_[at]); }, static_cast<long>(rest * 1e9));
    if (monotonic_ns() < limit) continue;
    broken_ += open_;
    return;
  }
}

void Client::print() {
  std::sort(token_delays_.begin(), token_delays_.end());
  std::sort(request_delays_.begin(), request_delays_.end());
  std::printf(
      R"({"requests":%zu,"broken":%zu,"request_p50_us":%.1f,"request_p99_us":%.1f,)"
      R"("token_p50_us":%.1f,"token_p99_us":%.1f})"
      "\n",
      requests_.size(), broken_, quantile_us(request_delays_, 0.5), quantile_us(request_delays_, 0.99),
      quantile_us(token_delays_, 0.5), quantile_us(token_delays_, 0.99));
}

}  // namespace

int main(int argc, char** argv) {
  raise_descriptor_limit();
  const auto port = static_cast<std::uint16_t>(option(argc, argv, "--port", 0));
  const double rate = option(argc, argv, "--rate", 100), seconds = option(argc, argv, "--seconds", 5);
  const auto tokens = static_cast<std::uint64_t>(option(argc, argv, "--tokens", 25));
  if (port == 0 || rate <= 0 || seconds <= 0 || tokens == 0)
    fail("bench_isolation_client: --port, --rate, --seconds and --tokens have to be above 0");
  Client client(port, tokens, option(argc, argv, "--tls", 0) != 0);
  client.run(rate, seconds, option(argc, argv, "--rest", 0.0005));
  client.print();
}
