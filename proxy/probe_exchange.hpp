// One request to a replica and its answer, on a connection of its own, blocking, each step within a time limit.
//
// For the probe only; not the data path. Yet heads go through the same gate, bodies through the same decoder and
// moments come from the same clock as there, so that what is measured is what weir would measure.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "config/settings.hpp"
#include "metrics/moment.hpp"
#include "proxy/http_head.hpp"

namespace weir::proxy {

/// Takes an answer as it comes.
class AnswerReader {
 public:
  virtual ~AnswerReader() = default;
  /// `sent`: the first byte of the request was written.
  virtual void head(const ResponseHead& head, metrics::Moment sent, metrics::Moment at) = 0;
  /// False: enough was read. StreamMeter::padding bytes behind the span are readable.
  virtual bool body(std::span<const char> bytes, metrics::Moment at) = 0;
  /// `framed`: not by the close.
  virtual void end(bool whole, bool framed, metrics::Moment at) = 0;
};

struct ProbeRequest {
  std::string_view method = "GET";
  std::string path;  ///< The replica's prefix is put before it.
  std::string body;  ///< JSON, for POST.
};

struct ProbeLimits {
  std::chrono::steady_clock::duration connect;
  std::chrono::steady_clock::duration answer;  ///< From the connection to the end of the answer.
};

enum class ExchangeEnd : std::uint8_t { answered, failed, timed_out };
struct Exchanged {
  ExchangeEnd end = ExchangeEnd::failed;
  std::string why;  ///< A sentence without its end, where not answered.
};

/// The first address of a host, or a sentence why there is none. A look-up that takes longer than `limit` is left
/// behind.
std::variant<boost::asio::ip::tcp::endpoint, std::string> address_of(const config::ReplicaUrl& url,
                                                                     std::chrono::steady_clock::duration limit);

Exchanged exchange_with(const boost::asio::ip::tcp::endpoint& endpoint, const config::ReplicaUrl& url,
                        const ProbeRequest& request, const ProbeLimits& limits, config::ReadClock clock,
                        AnswerReader& reader);

}  // namespace weir::proxy
