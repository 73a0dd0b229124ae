#include "proxy/probe/exchange.hpp"

#include <boost/asio/io_context.hpp>
#include <span>
#include <utility>

#include "metrics/format.hpp"
#include "proxy/fleet/discovery.hpp"
#include "proxy/fleet/page_asking.hpp"
#include "proxy/fleet/replica_stream.hpp"
#include "proxy/net/connect.hpp"
#include "proxy/net/name_lookup.hpp"

namespace weir::proxy::probe {
namespace {

using Clock = std::chrono::steady_clock;
using fleet::QuestionEnd, fleet::QuestionResult;

std::string seconds_of(Clock::duration time) {
  return metrics::format("%g s", std::chrono::duration<double>(time).count());
}

/// The arguments outlive the coroutine.
net::Awaitable<QuestionResult> ask(fleet::ReplicaStream& stream, std::span<net::Address> others,
                                   const std::string& request, const ProbeLimits& limits,
                                   fleet::AnswerReader& reader) {
  if (const int error = co_await stream.connect(others); error != 0 && stream.timed_out())
    co_return QuestionResult{QuestionEnd::timed_out, "cannot connect within " + seconds_of(limits.connect)};
  else if (error != 0)
    co_return QuestionResult{QuestionEnd::failed, "cannot connect: " + net::connect_error_text(error)};
  stream.set_limit(limits.answer);
  const QuestionResult too_late{QuestionEnd::timed_out, "no answer within " + seconds_of(limits.answer)};
  if (!co_await stream.write(request))
    co_return stream.timed_out() ? too_late
                                 : QuestionResult{QuestionEnd::failed, "cannot send: " + stream.error_text()};

  auto end = co_await fleet::read_answer(stream, reader);
  if (end) co_return *std::move(end);
  if (stream.timed_out()) co_return too_late;
  if (const int refused = stream.refusal())
    co_return QuestionResult{QuestionEnd::failed, "cannot connect: " + net::connect_error_text(refused)};
  co_return QuestionResult{QuestionEnd::failed, "the connection breaks: " + stream.error_text()};
}

}  // namespace

std::variant<Addresses, std::string> addresses_of(const config::ReplicaUrl& url,
                                                  const std::optional<config::ListenAddress>& nameserver,
                                                  Clock::duration limit) {
  if (!url.unix_path.empty()) return Addresses{net::Address::at_path(url.unix_path), {}};
  net::NameLookup lookup(url.host, nameserver);
  const auto found = lookup.result(limit);
  if (!found) return "cannot look up " + url.host + " within " + seconds_of(limit);
  if (const auto* why = std::get_if<std::string>(&*found)) return "cannot look up " + url.host + ": " + *why;
  const auto addresses = fleet::addresses_to_use({}, std::get<std::vector<boost::asio::ip::address>>(*found));
  Addresses to{net::Address(addresses.front(), url.port), {}};
  for (std::size_t i = 1; i < addresses.size(); ++i) to.others.emplace_back(addresses[i], url.port);
  return to;
}

fleet::QuestionResult exchange_with(Addresses& to, const config::ReplicaUrl& url, const fleet::Question& question,
                                    const ProbeLimits& limits, config::ReadClock clock, fleet::AnswerReader& reader) {
  boost::asio::io_context context{1};
  const auto request = fleet::bytes_of(url, question);
  fleet::ReplicaStream stream(context.get_executor(), to.first, limits.connect, clock);
  auto result = fleet::wait_for(context, ask(stream, to.others, request, limits, reader));
  to.first.address = stream.address();
  return result;
}

}  // namespace weir::proxy::probe
