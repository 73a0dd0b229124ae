#include "proxy/fleet/page_asking.hpp"

#include <boost/asio/this_coro.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "metrics/measure/stream_meter.hpp"
#include "proxy/fleet/replica_stream.hpp"

namespace weir::proxy::fleet {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr std::size_t page_read_size = 16 * 1024;

}  // namespace

net::Awaitable<PageAnswer> ask_for_page(std::shared_ptr<const Replica> replica, Question question,
                                        Clock::duration limit, std::size_t longest) {
  PageAnswer page;
  auto destination = replica->destination();
  if (!destination) co_return page;
  const auto executor = co_await asio::this_coro::executor;
  ReplicaStream stream(executor, std::move(*destination), limit);
  if (co_await stream.connect() != 0) co_return page;
  if (!co_await stream.write(bytes_of(replica->settings.url, question))) {
    page.why_none = stream.failure();
    co_return page;
  }
  PageReader reader(page, longest);
  ReplicaAnswer answer(reader, stream.sent());
  std::vector<char> buffer(page_read_size + metrics::measure::StreamMeter::padding);
  const std::span<char> into(buffer.data(), page_read_size);
  for (std::optional<QuestionResult> end; !end;) {
    const auto read = co_await stream.read(into);
    if (read.size == 0)
      end = answer.closed(read.at);
    else if (read.size < 0)
      end = QuestionResult{QuestionEnd::failed, stream.failure()};
    else
      end = answer.arrived(into.first(static_cast<std::size_t>(read.size)), read.at);
    if (end) page.why_none = std::move(end->why);
  }
  co_return page;
}

}  // namespace weir::proxy::fleet
