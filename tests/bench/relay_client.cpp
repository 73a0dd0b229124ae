// bench_client reads many stamped streams through one port, and watches a process meanwhile.
//
// Usage: bench_client --port P [--streams 500] [--tokens 600] [--warm-up 1] [--seconds 10] [--watch PID] [--timeout 60]
//                     [--rest 0.0005] [--tls 0]
// The client opens the streams, and waits until each has had a token and `warm-up` s more. Then, for `seconds`, it
// notes the age of every token when the kernel received it, and the CPU time that the watched process uses. It reads
// all streams to their ends, and prints one JSON object. It exits 1 if a stream was not whole or if the streams ended
// before the seconds did. It has one thread.
//
// The client sleeps for `rest` s between looks at its sockets instead of waiting on them. A client that waits is woken
// by nearly every send of a proxy beside it. That costs the proxy as much as the rest of the send, and more or less of
// it as the scheduler places the two; a client on another machine costs it none of that. The ages do not suffer,
// because they come from the kernel's receive stamps.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "tests/bench/relay_sockets.hpp"
#include "tests/bench/stamped_stream.hpp"
#include "tests/bench/tls_reader.hpp"

namespace {

using namespace weir::bench;

/// The account that /proc gives of a process.
struct Usage {
  double cpu = 0;   ///< Seconds, to the nanosecond.
  double user = 0;  ///< The user's part of it, by ticks of 10 ms.
  long rss_kib = 0;
  long anonymous_kib = 0;  ///< The part that is no mapped file.
};

Usage usage_of(int pid) {
  Usage usage;
  if (pid == 0) return usage;
  const std::string directory = "/proc/" + std::to_string(pid);
  std::ifstream stat(directory + "/stat");
  std::string text;
  if (!std::getline(stat, text)) fail("bench_client: there is no process " + std::to_string(pid));
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  fields >> usage.user;
  usage.user /= static_cast<double>(::sysconf(_SC_CLK_TCK));
  for (const auto& thread : std::filesystem::directory_iterator(directory + "/task")) {
    double nanoseconds = 0;
    std::ifstream(thread.path() / "schedstat") >> nanoseconds;
    usage.cpu += nanoseconds / 1e9;
  }
  std::ifstream status(directory + "/status");
  const auto number = [&text](std::string_view name, long& value) {
    if (text.starts_with(name)) value = std::strtol(text.c_str() + name.size(), nullptr, 10);
  };
  while (std::getline(status, text)) {
    number("VmRSS:", usage.rss_kib);
    number("RssAnon:", usage.anonymous_kib);
  }
  return usage;
}

struct Stream {
  int fd = -1;
  std::unique_ptr<TlsReader> tls;
  StampedStream reader;
};

class Client {
 public:
  Client(std::uint16_t port, std::size_t streams, std::uint64_t tokens, bool tls)
      : port_(port), tokens_(tokens), tls_(tls), streams_(streams) {}

  void run(int watched, double warm_up, double seconds, double timeout, double rest);
  bool print() const;

 private:
  void open(std::size_t at);
  void readable(std::size_t at);
  void phase(std::uint64_t now);

  std::uint16_t port_;
  std::uint64_t tokens_;
  bool tls_;
  std::vector<Stream> streams_;
  int set_ = -1;
  int watched_ = 0;
  std::uint64_t warm_up_ns_ = 0, window_ns_ = 0;
  std::uint64_t window_from_ = 0, window_to_ = 0;  ///< 0 until it is set.
  bool measuring_ = false, measured_ = false;
  Usage idle_, from_, to_;
  double measured_seconds_ = 0;
  std::vector<std::uint64_t> delays_;  ///< Delays in the window, sorted at the end.
  std::size_t open_ = 0, begun_ = 0, broken_ = 0;
  std::uint64_t received_ = 0;
};

void Client::open(std::size_t at) {
  auto& stream = streams_[at];
  stream.fd = stamped_connection(port_);
  const auto request = chat_request(tokens_);
  if (tls_) {
    stream.tls = std::make_unique<TlsReader>(stream.fd, request);
    stream.tls->begin();
  } else {
    send_whole(stream.fd, request);
  }
  ++open_;
  watch(set_, stream.fd, EPOLLIN, at);
}

void Client::readable(std::size_t at) {
  auto& stream = streams_[at];
  char bytes[16 * 1024];
  std::uint64_t now = 0;
  const auto size = read_stamped(stream.fd, bytes, now);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const auto before = stream.reader.tokens();
  if (size > 0) {
    const auto note = [&](std::uint64_t stamp) {
      if (measuring_) delays_.push_back(now > stamp ? now - stamp : 0);
    };
    const std::string_view read(bytes, static_cast<std::size_t>(size));
    if (stream.tls)
      stream.tls->arrived(read, [&](std::string_view plain) { stream.reader.read(plain, note); });
    else
      stream.reader.read(read, note);
    received_ += stream.reader.tokens() - before;
    if (before == 0 && stream.reader.tokens() > 0) ++begun_;
  }
  if (size > 0 && !stream.reader.whole()) return;
  if (!stream.reader.whole() || !stream.reader.accepted() || stream.reader.tokens() != tokens_) ++broken_;
  stream.tls.reset();
  ::close(stream.fd);
  stream.fd = -1;
  --open_;
}

/// Begins and ends the window of the measurement.
void Client::phase(std::uint64_t now) {
  if (measured_) return;
  if (window_from_ == 0) {
    if (begun_ == streams_.size()) window_from_ = now + warm_up_ns_;
  } else if (!measuring_ && now >= window_from_) {
    from_ = usage_of(watched_);
    measuring_ = true;
    window_from_ = monotonic_ns();
    window_to_ = window_from_ + window_ns_;
  } else if (measuring_ && now >= window_to_) {
    to_ = usage_of(watched_);
    measured_seconds_ = static_cast<double>(now - window_from_) / 1e9;
    measuring_ = false;
    measured_ = true;
  }
}

void Client::run(int watched, double warm_up, double seconds, double timeout, double rest) {
  watched_ = watched;
  warm_up_ns_ = static_cast<std::uint64_t>(warm_up * 1e9);
  window_ns_ = static_cast<std::uint64_t>(seconds * 1e9);
  delays_.reserve(4'000'000);
  set_ = checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
  idle_ = usage_of(watched_);
  const auto limit = monotonic_ns() + static_cast<std::uint64_t>(timeout * 1e9);
  std::size_t next = 0;
  while (next < streams_.size() || open_ > 0) {
    for (int i = 0; i < 20 && next < streams_.size(); ++i) open(next++);
    const long pause = next == streams_.size() ? static_cast<long>(rest * 1e9) : 0;
    read_ready(
        set_, [&](std::uint64_t at) { readable(at); }, pause);
    const auto now = monotonic_ns();
    phase(now);
    if (now > limit) fail("bench_client: not over within the time limit, " + std::to_string(open_) + " streams open");
  }
  std::sort(delays_.begin(), delays_.end());
}

bool Client::print() const {
  std::printf(
      "{\"streams\":%zu,\"tokens\":%llu,\"broken\":%zu,\"measured\":%s,\"seconds\":%.3f,\"window_tokens\":%zu,"
      "\"delay_p50_us\":%.1f,\"delay_p99_us\":%.1f,\"delay_max_us\":%.1f,\"cpu_s\":%.4f,\"cpu_user_s\":%.2f,"
      "\"rss_idle_kib\":%ld,\"rss_kib\":%ld,\"anonymous_idle_kib\":%ld,\"anonymous_kib\":%ld}\n",
      streams_.size(), static_cast<unsigned long long>(received_), broken_, measured_ ? "true" : "false",
      measured_seconds_, delays_.size(), quantile_us(delays_, 0.5), quantile_us(delays_, 0.99), quantile_us(delays_, 1),
      to_.cpu - from_.cpu, to_.user - from_.user, idle_.rss_kib, to_.rss_kib, idle_.anonymous_kib, to_.anonymous_kib);
  return broken_ == 0 && (measured_ || window_ns_ == 0);
}

}  // namespace

int main(int argc, char** argv) {
  raise_descriptor_limit();
  const auto port = static_cast<std::uint16_t>(option(argc, argv, "--port", 0));
  const auto streams = static_cast<std::size_t>(option(argc, argv, "--streams", 500));
  const auto tokens = static_cast<std::uint64_t>(option(argc, argv, "--tokens", 600));
  if (port == 0 || streams == 0 || tokens == 0) fail("bench_client: --port, --streams and --tokens have to be above 0");
  Client client(port, streams, tokens, option(argc, argv, "--tls", 0) != 0);
  client.run(static_cast<int>(option(argc, argv, "--watch", 0)), option(argc, argv, "--warm-up", 1),
             option(argc, argv, "--seconds", 10), option(argc, argv, "--timeout", 60),
             option(argc, argv, "--rest", 0.0005));
  return client.print() ? 0 : 1;
}
