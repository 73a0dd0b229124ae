#include "proxy/fleet/page_asking.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "config/quantity.hpp"
#include "metrics/measure/stream_meter.hpp"

namespace weir::proxy::fleet {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using Stream = boost::beast::basic_stream<asio::ip::tcp, asio::io_context::executor_type>;

constexpr std::size_t read_size = 16 * 1024;

std::string why_none(const boost::system::error_code& error, Clock::duration limit) {
  if (error != boost::beast::error::timeout) return "its connection broke off: " + error.message();
  return "it did not come within " + config::format_number(std::chrono::duration<double>(limit).count()) + " s";
}

}  // namespace

net::Awaitable<PageAnswer> ask_for_page(std::shared_ptr<const ReplicaRuntime> replica, Question question,
                                        Clock::duration limit, std::size_t longest) {
  PageAnswer page;
  const auto endpoint = replica->state->address.get();
  if (!endpoint) co_return page;
  const auto executor = co_await asio::this_coro::executor;
  boost::system::error_code error;
  auto token = asio::redirect_error(net::use_awaitable, error);
  Stream stream(executor);
  stream.expires_after(limit);
  co_await stream.async_connect(*endpoint, token);
  if (error) co_return page;
  const auto bytes = bytes_of(replica->settings.url, question);
  const auto to_write = asio::buffer(bytes);
  co_await asio::async_write(stream, to_write, token);
  if (error) {
    page.why_none = why_none(error, limit);
    co_return page;
  }
  PageReader reader(page, longest);
  ReplicaAnswer answer(reader, Clock::now());
  std::vector<char> buffer(read_size + metrics::measure::StreamMeter::padding);
  const auto to_read = asio::buffer(buffer.data(), read_size);
  for (std::optional<QuestionResult> end; !end;) {
    const auto size = co_await stream.async_read_some(to_read, token);
    const auto now = Clock::now();
    if (error == asio::error::eof)
      end = answer.closed(now);
    else if (error)
      end = QuestionResult{QuestionEnd::failed, why_none(error, limit)};
    else
      end = answer.arrived({buffer.data(), size}, now);
    if (end) page.why_none = std::move(end->why);
  }
  co_return page;
}

}  // namespace weir::proxy::fleet
