// bench_bad_replica is a replica that misbehaves, so that a bench can show whom it harms.
//
// Usage: bench_bad_replica --does stall|reset|flood [--port 0] [--mib 0] It prints "listening on 127.0.0.1:PORT".
//   stall   takes requests and never answers
//   reset   resets the connection as soon as it has a request
//   flood   answers each request with token events without an end, as fast as they are taken, or MIB MiB a second in
//   all
// A request without a body gets an empty 200: it looks healthy to those who ask. The program has one thread, runs until
// it is ended, and says then how much it has sent.
#include "tests/bench/replica_server.hpp"

namespace {

using namespace weir::bench;

enum class Does { stall, reset, flood };

struct Connection : Peer {
  using Peer::Peer;
  std::size_t at = 0;  ///< The part of the flood's round that has been sent.
};

class BadReplica : public ReplicaServer<Connection> {
 public:
  BadReplica(std::uint16_t port, Does does, double mib_a_second)
      : ReplicaServer(port), does_(does), bytes_a_ns_(mib_a_second * 1024 * 1024 / 1e9) {
    const std::string event = "data: " + std::string(chunk_begin) +
                              R"({"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]})" +
                              "\n\n";
    while (round_.size() < 64 * 1024) add_chunk(round_, event);
  }
  void end() const {
    std::printf("requests: %llu, MiB sent: %llu\n", static_cast<unsigned long long>(requests_),
                static_cast<unsigned long long>(bytes_ >> 20));
  }

 private:
  bool asked(Connection& of, std::string_view body) override;
  bool writable(Connection& of) override;
  void step() override {
    constexpr timespec pause{0, 1'000'000};
    if (ahead()) ::clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
  }
  /// True if the flood has sent more than it is to have by now.
  bool ahead() const {
    return bytes_a_ns_ > 0 && static_cast<double>(bytes_) > bytes_a_ns_ * static_cast<double>(monotonic_ns() - begun_);
  }

  const Does does_;
  const double bytes_a_ns_;  ///< The rate of a flood; 0 means no limit.
  const std::uint64_t begun_ = monotonic_ns();
  std::string round_;
  std::uint64_t requests_ = 0, bytes_ = 0;
};

bool BadReplica::asked(Connection& of, std::string_view) {
  ++requests_;
  if (does_ == Does::stall) return true;
  if (does_ == Does::reset) {
    const linger at_once{1, 0};
    ::setsockopt(of.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    return false;
  }
  if (::send(of.fd, stream_head.data(), stream_head.size(), MSG_NOSIGNAL) < 0) return false;
  want_to_write(of);
  return true;
}

bool BadReplica::writable(Connection& of) {
  if (ahead()) return true;
  const auto sent = ::send(of.fd, round_.data() + of.at, round_.size() - of.at, MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN || errno == EINTR;
  of.at = (of.at + static_cast<std::size_t>(sent)) % round_.size();
  bytes_ += static_cast<std::uint64_t>(sent);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  raise_descriptor_limit();
  const std::string_view does = text_option(argc, argv, "--does", "");
  if (does != "stall" && does != "reset" && does != "flood")
    fail("bench_bad_replica: --does has to be stall, reset or flood");
  BadReplica replica(static_cast<std::uint16_t>(option(argc, argv, "--port", 0)),
                     does == "stall"   ? Does::stall
                     : does == "reset" ? Does::reset
                                       : Does::flood,
                     option(argc, argv, "--mib", 0));
  replica.run();
  replica.end();
}
