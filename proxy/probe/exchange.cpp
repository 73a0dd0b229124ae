#include "proxy/probe/exchange.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "metrics/measure/stream_meter.hpp"
#include "proxy/net/arrival.hpp"
#include "proxy/net/connect.hpp"
#include "proxy/net/name_lookup.hpp"

namespace weir::proxy::probe {
namespace {

using Clock = std::chrono::steady_clock;
using boost::asio::ip::tcp;

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

}  // namespace

std::variant<tcp::endpoint, std::string> address_of(const config::ReplicaUrl& url,
                                                    const std::optional<config::ListenAddress>& nameserver,
                                                    Clock::duration limit) {
  net::NameLookup lookup(url.host, nameserver);
  const auto found = lookup.result(limit);
  if (!found) return "cannot look up " + url.host + " within " + seconds_of(limit);
  if (const auto* why = std::get_if<std::string>(&*found)) return "cannot look up " + url.host + ": " + *why;
  return tcp::endpoint(std::get<std::vector<boost::asio::ip::address>>(*found).front(), url.port);
}

fleet::QuestionResult exchange_with(const tcp::endpoint& endpoint, const config::ReplicaUrl& url,
                                    const fleet::Question& question, const ProbeLimits& limits, config::ReadClock clock,
                                    fleet::AnswerReader& reader) {
  const auto socket = net::begin_connect(endpoint);
  if (!socket) return failed("cannot connect", errno);
  if (!ready(socket.get(), POLLOUT, Clock::now() + limits.connect))
    return {fleet::QuestionEnd::timed_out, "cannot connect within " + seconds_of(limits.connect)};
  if (const int error = net::connect_error(socket.get())) return failed("cannot connect", error);

  const net::ArrivalClock arrivals(clock);
  arrivals.enable(socket.get());
  const auto deadline = Clock::now() + limits.answer;
  const fleet::QuestionResult too_late{fleet::QuestionEnd::timed_out, "no answer within " + seconds_of(limits.answer)};
  const auto bytes = fleet::bytes_of(url, question);
  std::optional<Clock::time_point> sent;
  for (std::string_view left = bytes; !left.empty();) {
    if (!ready(socket.get(), POLLOUT, deadline)) return too_late;
    // The clock is read before the call, because over loopback an answer can be stamped before it returns.
    const auto now = Clock::now();
    const auto n = ::send(socket.get(), left.data(), left.size(), MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return failed("cannot send", errno);
    if (n <= 0) continue;
    if (!sent) sent = now;
    left.remove_prefix(static_cast<std::size_t>(n));
  }

  fleet::ReplicaAnswer answer(reader, *sent);
  std::vector<char> buffer(read_size + metrics::measure::StreamMeter::padding);
  for (;;) {
    if (!ready(socket.get(), POLLIN, deadline)) return too_late;
    const auto read = arrivals.read(socket.get(), {buffer.data(), read_size});
    if (read.size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (read.size < 0) return failed("the connection breaks", errno);
    if (read.size == 0) return answer.closed(read.at);
    if (auto end = answer.arrived({buffer.data(), static_cast<std::size_t>(read.size)}, read.at)) return *end;
  }
}

}  // namespace weir::proxy::probe
