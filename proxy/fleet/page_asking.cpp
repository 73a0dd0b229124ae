#include "proxy/fleet/page_asking.hpp"

#include <boost/asio/this_coro.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "metrics/measure/stream_meter.hpp"

namespace weir::proxy::fleet {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr std::size_t read_size = 16 * 1024;

}  // namespace

net::Awaitable<std::optional<QuestionResult>> read_answer(ReplicaStream& stream, AnswerReader& reader) {
  ReplicaAnswer answer(reader, stream.sent());
  std::vector<char> buffer(read_size + metrics::measure::StreamMeter::padding);
  const std::span<char> into(buffer.data(), read_size);
  for (;;) {
    const auto read = co_await stream.read(into);
    if (read.size < 0) co_return std::nullopt;
    if (read.size == 0) co_return answer.closed(read.at);
    auto end = answer.arrived(into.first(static_cast<std::size_t>(read.size)), read.at);
    if (end) co_return end;
  }
}

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
  const auto end = co_await read_answer(stream, reader);
  page.why_none = end ? end->why : stream.failure();
  co_return page;
}

}  // namespace weir::proxy::fleet
