#include "proxy/probe/exchange.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "metrics/measure/stream_meter.hpp"
#include "proxy/fleet/discovery.hpp"
#include "proxy/net/address_race.hpp"
#include "proxy/net/arrival.hpp"
#include "proxy/net/connect.hpp"
#include "proxy/net/name_lookup.hpp"
#include "proxy/net/tls/socket.hpp"

namespace weir::proxy::probe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t read_size = 64 * 1024;

std::string seconds_of(Clock::duration time) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", std::chrono::duration<double>(time).count());
  return text;
}

fleet::QuestionResult failed(const char* what, int error) {
  return {fleet::QuestionEnd::failed, std::string(what) + ": " + std::strerror(error)};
}

/// Returns false once the deadline has passed.
bool ready(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    pollfd waited{fd, events, 0};
    const int n = ::poll(&waited, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
    if (n > 0) return true;
  }
}

/// Returns a connection to the first of the addresses that takes one; an empty one with errno.
net::UniqueFd connect(const net::Destination& to, Clock::time_point deadline) {
  net::AddressRace race(1 + to.others.size());
  const auto address = [&to](std::size_t i) -> const net::Address& { return i == 0 ? to.address : to.others[i - 1]; };
  std::vector<std::pair<net::UniqueFd, std::size_t>> sockets;
  for (auto now = Clock::now(); now < deadline; now = Clock::now()) {
    while (const auto which = race.next(now)) {
      auto socket = net::begin_connect(address(*which));
      if (socket)
        sockets.emplace_back(std::move(socket), *which);
      else
        race.failed(errno, address(*which));
    }
    if (race.lost()) {
      errno = race.error();
      return {};
    }
    std::vector<pollfd> waited;
    for (const auto& [socket, which] : sockets) waited.push_back({socket.get(), POLLOUT, 0});
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::min(race.due(), deadline) - now);
    ::poll(waited.data(), waited.size(), static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000)));
    for (std::size_t i = waited.size(); i-- > 0;) {
      if (waited[i].revents == 0) continue;
      const int error = net::connect_error(waited[i].fd);
      if (error == 0) return std::move(sockets[i].first);
      race.failed(error, address(sockets[i].second));
      sockets.erase(sockets.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  errno = ETIMEDOUT;
  return {};
}

/// A socket that blocks by poll(), plain or TLS.
class Connection {
 public:
  Connection(int fd, config::ReadClock clock) : fd_(fd), clock_(clock) { clock_.enable(fd); }

  /// Returns why the handshake failed; nothing if it went well, or "" if it took too long.
  std::optional<std::string> begin_tls(const net::tls::Target& target, Clock::time_point deadline) {
    tls_.emplace(clock_, fd_, target.begin());
    for (;;) {
      const auto step = tls_->handshake();
      if (step == net::tls::Socket::Step::done) return std::nullopt;
      if (step == net::tls::Socket::Step::failed) return net::connect_error_text(tls_->failure());
      if (!ready(fd_, step == net::tls::Socket::Step::writes ? POLLOUT : POLLIN, deadline)) return "";
      tls_->may_have_bytes(true);
    }
  }
  ssize_t write(std::string_view bytes) {
    return tls_ ? tls_->write({&bytes, 1}, 0) : ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  net::ArrivalClock::Read read(std::span<char> into) {
    if (!tls_) return clock_.read(fd_, into);
    tls_->may_have_bytes(true);
    auto got = tls_->read(into);
    while (got.size < 0 && tls_->has_more()) got = tls_->read(into);
    return {got.size, got.at};
  }
  /// Returns why the replica refused weir, once a read has failed; "" if it did not.
  std::string refusal() const {
    return tls_ && tls_->failure() != 0 ? net::connect_error_text(tls_->failure()) : std::string();
  }

 private:
  const int fd_;
  const net::ArrivalClock clock_;
  std::optional<net::tls::Socket> tls_;
};

}  // namespace

std::variant<net::Destination, std::string> destination_of(const config::ReplicaUrl& url,
                                                           const std::optional<config::ListenAddress>& nameserver,
                                                           Clock::duration limit) {
  if (!url.unix_path.empty()) return net::Destination(net::Address::at_path(url.unix_path));
  net::NameLookup lookup(url.host, nameserver);
  const auto found = lookup.result(limit);
  if (!found) return "cannot look up " + url.host + " within " + seconds_of(limit);
  if (const auto* why = std::get_if<std::string>(&*found)) return "cannot look up " + url.host + ": " + *why;
  const auto addresses = fleet::addresses_to_use({}, std::get<std::vector<boost::asio::ip::address>>(*found));
  net::Destination to(net::Address(addresses.front(), url.port));
  for (std::size_t i = 1; i < addresses.size(); ++i) to.others.emplace_back(addresses[i], url.port);
  return to;
}

fleet::QuestionResult exchange_with(const net::Destination& destination, const config::ReplicaUrl& url,
                                    const fleet::Question& question, const ProbeLimits& limits, config::ReadClock clock,
                                    fleet::AnswerReader& reader) {
  const auto connected_by = Clock::now() + limits.connect;
  const fleet::QuestionResult unconnected{fleet::QuestionEnd::timed_out,
                                          "cannot connect within " + seconds_of(limits.connect)};
  const auto socket = connect(destination, connected_by);
  if (!socket && errno == ETIMEDOUT && Clock::now() >= connected_by) return unconnected;
  if (!socket) return failed("cannot connect", errno);

  Connection connection(socket.get(), clock);
  if (destination.tls) {
    if (const auto why = connection.begin_tls(*destination.tls, connected_by))
      return why->empty() ? unconnected : fleet::QuestionResult{fleet::QuestionEnd::failed, "cannot connect: " + *why};
  }
  const auto deadline = Clock::now() + limits.answer;
  const fleet::QuestionResult too_late{fleet::QuestionEnd::timed_out, "no answer within " + seconds_of(limits.answer)};
  const auto bytes = fleet::bytes_of(url, question);
  std::optional<Clock::time_point> sent;
  for (std::string_view left = bytes; !left.empty();) {
    if (!ready(socket.get(), POLLOUT, deadline)) return too_late;
    // The clock is read before the call, because over loopback an answer can be stamped before it returns.
    const auto now = Clock::now();
    const auto n = connection.write(left);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return failed("cannot send", errno);
    if (n <= 0) continue;
    if (!sent) sent = now;
    left.remove_prefix(static_cast<std::size_t>(n));
  }

  fleet::ReplicaAnswer answer(reader, *sent);
  std::vector<char> buffer(read_size + metrics::measure::StreamMeter::padding);
  for (;;) {
    if (Clock::now() >= deadline) return too_late;
    // TLS may hold bytes that it has read already, so the read comes before the wait.
    const auto read = connection.read({buffer.data(), read_size});
    if (read.size < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (!ready(socket.get(), POLLIN, deadline)) return too_late;
      continue;
    }
    const int error = errno;
    if (const auto refusal = connection.refusal(); read.size < 0 && !refusal.empty())
      return {fleet::QuestionEnd::failed, "cannot connect: " + refusal};
    if (read.size < 0) return failed("the connection breaks", error);
    if (read.size == 0) return answer.closed(read.at);
    if (auto end = answer.arrived({buffer.data(), static_cast<std::size_t>(read.size)}, read.at)) return *end;
  }
}

}  // namespace weir::proxy::probe
