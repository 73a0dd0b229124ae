#include "proxy/fleet/keep_running.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>
#include <string>
#include <utility>

#include "proxy/events/events.hpp"
#include "proxy/net/channel.hpp"

namespace weir::proxy::fleet {
namespace {

namespace asio = boost::asio;

std::string text_of_failure(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

net::Awaitable<void> ticking(InternalErrors& errors, Part part, std::chrono::milliseconds every,
                             std::function<void()> tick, std::chrono::milliseconds pause) {
  const auto executor = co_await asio::this_coro::executor;
  net::Timer timer(executor);
  for (;;) {
    auto wait = pause;
    noting_failure(errors, part, "it goes on", [&] {
      tick();
      wait = every;
    });
    timer.expires_after(wait);
    co_await timer.async_wait(net::use_awaitable);
  }
}

}  // namespace

void note_failure(InternalErrors& errors, Part part, const std::exception_ptr& failure, std::string_view consequence) {
  if (!failure) return;
  errors.count(part);
  events::error(events::What::weir, "", "internal error ({}): {}; {}. Please report it",
                metrics::series::part_names[static_cast<std::size_t>(part)], text_of_failure(failure), consequence);
}

void keep_ticking(asio::io_context& context, InternalErrors& errors, Part part, std::chrono::milliseconds every,
                  std::function<void()> tick, std::chrono::milliseconds pause) {
  asio::co_spawn(context, ticking(errors, part, every, std::move(tick), pause),
                 Unawaited(errors, part, "it has ended"));
}

}  // namespace weir::proxy::fleet
